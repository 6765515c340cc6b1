"""From a configuration file of ST's model zoo and a model to a firmware project that runs the model.

`config.py` reads the file, knows its keys and is what the rest works with. `app_config/` writes the header by which the
application knows its model. `h747.py` patches the STM32H747I-DISCO applications. `deployment.py` knows a project,
`steps.py` has the steps in their order, `journal.py` makes every step all or nothing.
"""
