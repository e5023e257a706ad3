"""The typed core of vllm-fleet.

What is at the top of this package runs on the controller. ``target`` runs on managed hosts: Python 3.9, standard
library. Imports inside the package are relative, because it is ``fleet`` on the controller and
``ansible.module_utils.fleet`` on a host.
"""
