"""An extension of Google's Model Explorer: `model-explorer MODEL --extensions=atonc.doors.explorer`.

`main` is what Model Explorer loads: an adapter that shows the compiled graph, and node data to colour it by. `graph`
has what they say, without Model Explorer.
"""
