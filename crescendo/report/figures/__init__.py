"""The figures of all pages as plotly's plain dictionaries.

Colours are names (``@accent``) that the page looks up, so that one figure serves light and dark. Beside plotly's ``data`` and
``layout`` a figure has ``ends``, labels that the page writes where lines end, and ``alt``, which says in words what it shows.
"""
