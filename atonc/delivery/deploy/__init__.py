"""From a configuration file of ST's model zoo and a model to a firmware project that runs the model.

`yaml_file.py` reads the file, `schema.py` knows its keys, `config.py` is what the rest works with. `app_config/` writes
the header by which the application knows its model. `h747.py` patches the STM32H747I-DISCO applications. `plan.py` puts
the steps (`steps/`, one file each) in order, `layout.py` knows a project, `journal.py` makes every step all or nothing.
"""
