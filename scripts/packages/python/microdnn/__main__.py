"""python -m microdnn"""
from microdnn import main

main()
