"""Makes man pages of the pages: no links, no wide tables, the sections of man-pages(7)."""

from docutils import nodes
from sphinx.application import Sphinx

ELSEWHERE = ("mailto:", "http:", "https:", "ftp:")


def setup(app: Sphinx) -> None:
    """Have Sphinx call us when the references of a page are known."""
    app.connect("doctree-resolved", _prepare)


def _prepare(app: Sphinx, page: nodes.document, _name: str) -> None:
    if app.builder.name != "man":
        return
    for link in list(page.findall(nodes.reference)):
        if not link.get("refuri", "").startswith(ELSEWHERE):
            link.replace_self(link.children)
    for table in list(page.findall(nodes.table)):
        table.replace_self(_listed(table))
    for section in list(page.findall(nodes.section)):
        if section.parent.parent is page and _usage(section):
            section.replace_self(_parts(section))


def _listed(table: nodes.table) -> nodes.definition_list:
    """Return a table as a list: each row's first cell, and the others with their titles."""
    head, *rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
    titles = [cell.astext() for cell in head]
    return nodes.definition_list("", *(_row(titles, row) for row in rows))


def _row(titles: list[str], row: list[nodes.entry]) -> nodes.definition_list_item:
    term = nodes.term("", "", *_inline(row[0]))
    is_pair = len(row) <= 2
    told = [
        nodes.paragraph("", "", nodes.Text("" if is_pair else f"{title}: "), *_inline(cell))
        for title, cell in zip(titles[1:], row[1:], strict=False)
        if cell.astext()
    ]
    return nodes.definition_list_item("", term, nodes.definition("", *told))


def _inline(cell: nodes.entry) -> list[nodes.Node]:
    return [node for part in cell.children for node in part.children]


def _usage(section: nodes.section) -> nodes.literal_block | None:
    """Return how a command is called, None in any other section."""
    for title, node in zip(section.children, section.children[1:], strict=False):
        if _is_usage(title) and isinstance(node, nodes.literal_block):
            return node
    return None


def _is_usage(node: nodes.Node) -> bool:
    return isinstance(node, nodes.rubric) and node.astext() == "Usage"


def _parts(section: nodes.section) -> list[nodes.Node]:
    """Return a command's section as those that man pages have; a rubric begins a new one."""
    usage = _usage(section)
    parts = [_section("Synopsis", usage), _section("Description")]
    for node in section.children[1:]:
        if isinstance(node, nodes.rubric) and not _is_usage(node):
            parts.append(_section(node.astext()))
        elif node is not usage and not _is_usage(node):
            parts[-1] += node
    return [part for part in parts if len(part.children) > 1]


def _section(title: str, *content: nodes.Node | None) -> nodes.section:
    return nodes.section("", nodes.title("", title), *content, ids=[nodes.make_id(title)])
