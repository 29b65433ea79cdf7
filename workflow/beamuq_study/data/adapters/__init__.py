"""One file a dataset; its name is the adapter's name in a study and the folder's name under ``data_root``."""
