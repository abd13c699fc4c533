"""For testing code that stands on Headgate, and stores and strategies that Headgate is to stand on.

Public and kept stable: an explorer of protocols, a simulation of whole clients, and contract suites.
"""
