"""From a configuration file of ST's model zoo and a model to a firmware project that runs the model.

`yaml_file.py` reads the file, `schema.py` knows its keys, `config.py` is what the rest works with. `app_config/` writes
the header by which the application knows its model.
"""
