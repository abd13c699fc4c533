"""For testing code that stands on Headgate, and stores and strategies that Headgate is to stand on.

Public and kept stable: a simulation of whole clients, contract suites, stores with faults, and an inspector
of what lies beneath a lake.
"""
