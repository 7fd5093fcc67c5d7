"""Jupyter's settings in the container: the course is laid out in the home of whoever starts a server.

What a learner changed is kept, and what an update of the image brings is added (`devlab.lab.lay_out`).
"""

from pathlib import Path

from devlab import lab

COURSE = "devlab-course"

lab.lay_out(Path.home() / COURSE)

c = get_config()  # noqa: F821  Jupyter provides it
c.ServerApp.contents_manager_class = "devlab.contents.Contents"
c.ServerApp.default_url = f"/lab/tree/{COURSE}/{lab.FIRST}"
c.LabApp.default_url = f"/lab/tree/{COURSE}/{lab.FIRST}"
