"""How units and engines are set up for a task."""
