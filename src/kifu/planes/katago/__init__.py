"""KataGo's planes (input version 7): rules as it reads them, games as it follows them, positions as its nets see them.

What KataGo v1.17.2 computes is what everything here is compared with, bit by bit.
"""
