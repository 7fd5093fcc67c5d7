"""The pictures: each a frozen state, a pure `draw(state)`, and the words for it."""
