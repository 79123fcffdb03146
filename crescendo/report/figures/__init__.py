"""Figures of all pages as plotly's plain dictionaries.

Colours are names (``@accent``) that the page looks up, so that one figure serves light and dark. In addition to plotly's
``data`` and ``layout`` a figure has ``ends``, labels that the page writes at the ends of lines, and ``alt``, a description.
"""
