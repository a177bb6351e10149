"""Downloads of published collections into a folder. The only package that connects to the internet.

Each file is received into NAME.part, checked to its end, and only then renamed. What has its final name is never
fetched again, and a .part file is resumed, within a run and in later ones. What servers send is not trusted: sizes are
bounded, and only plain names of the collection's form become part of a path.
"""
