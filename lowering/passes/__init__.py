"""What is decided about a Program before it is emitted.

keys.py   parameters of shape primitives on PRNG keys, which have one axis more in memory
cost.py   how much work a Program is: small programs run inline, cheap branches are both computed
"""
