"""Placeholder"""
def investigate(server, outcomes):
    return
