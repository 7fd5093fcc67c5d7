# The course in a container: CPU alone, no root, JupyterLab.
#
#   docker build -t devlab .
#   docker run --rm -p 8888:8888 devlab
#
# JupyterHub starts its own command in it, and Binder builds it with NB_USER and NB_UID: docs/places.md.
FROM python:3.12-slim

ARG NB_USER=learner
ARG NB_UID=1000
# PyPI's PyTorch for Linux brings CUDA, several gigabytes that no container without a GPU needs. Pass the address of
# PyTorch's index of CPU builds here; pytorch.org shows it under "Get Started".
ARG PIP_EXTRA_INDEX_URL
# A hub and its users' servers should be of one release: pass the hub's.
ARG JUPYTERHUB="jupyterhub>=5"

# nbgitpuller calls git.
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid "${NB_UID}" --shell /bin/bash "${NB_USER}"

COPY . /srv/devlab
RUN python3 -m pip install --no-cache-dir -c /srv/devlab/constraints.txt "/srv/devlab[lab]" "${JUPYTERHUB}" nbgitpuller
# These settings lay out the course in the user's home when a server starts: a hub mounts that home over the image's.
COPY .devcontainer/jupyter_server_config.py /usr/local/etc/jupyter/jupyter_server_config.py

ENV HOME="/home/${NB_USER}"
WORKDIR ${HOME}
USER ${NB_USER}
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--port=8888", "--no-browser"]
