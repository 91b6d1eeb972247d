"""Pictures that the console makes itself, as SVG: layout, flow, timeline and small lines. Cores without I/O."""
