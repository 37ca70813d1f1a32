"""Join the ES modules of the page into one script, so that the page is a single file and needs no build tool.

Browsers do not load modules from `file://`, and the security policy of the page forbids scripts from anywhere else. So
each module becomes a function that is called once, after the modules that it imports:

    import { make } from "./elements.js";       ->   const { make } = modules["elements.js"];
    export function panel(title) { .. }         ->   function panel(title) { .. }  ..  return { panel };

The result is equivalent for modules that import and export names in this form, at the start of a line. All other forms
(default exports, renaming, `export let`, imports without names, cycles) are errors.
"""

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{((?:\s*[\w$]+,)*\s*[\w$]+,?\s*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) ([\w$]+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$|\bimport\(", re.MULTILINE)


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Join the modules that `entry` needs into one script.

    Parameters
    ----------
    sources : mapping of str to str
        The text of every module by its file name.
    entry : str
        The module to start with.

    Returns
    -------
    str
        A classic script. The same sources give the same text.

    Raises
    ------
    ValueError
        If a module is missing, imports itself by way of others, imports a name that is not exported, or uses a form of
        `import` or `export` that is not supported.

    Examples
    --------
    >>> print(bundle({"a.js": 'import { x } from "./b.js";\\nalert(x);', "b.js": "export const x = 1;"}, "a.js"))
    (() => {
    "use strict";
    const modules = {};
    modules["b.js"] = (() => {
    const x = 1;
    return { x };
    })();
    modules["a.js"] = (() => {
    const { x } = modules["b.js"];
    alert(x);
    return {  };
    })();
    })();
    """
    order: list[str] = []
    _visit(sources, entry, (), order)
    parts = [_as_function(sources, name) for name in order]
    return "\n".join(["(() => {", '"use strict";', "const modules = {};", *parts, "})();"])


def _visit(sources: Mapping[str, str], name: str, path: tuple[str, ...], order: list[str]) -> None:
    """Append a module to `order`, after all modules that it imports."""
    if name in path:
        raise ValueError(f"modules import one another in a cycle: {' -> '.join((*path, name))}")
    if name in order:
        return
    if name not in sources:
        raise ValueError(f"{path[-1] if path else 'the page'} needs {name}, but there is no such module")
    for match in _IMPORT.finditer(sources[name]):
        _visit(sources, match[2], (*path, name), order)
    order.append(name)


def _as_function(sources: Mapping[str, str], name: str) -> str:
    def import_names(match: re.Match[str]) -> str:
        names = [each.strip() for each in match[1].split(",") if each.strip()]
        unknown = sorted(set(names) - set(_EXPORT.findall(sources[match[2]])))
        if unknown:
            raise ValueError(f"{name} imports {unknown[0]} from {match[2]}, which does not export it")
        return f'const {{ {", ".join(names)} }} = modules["{match[2]}"];'

    exported = _EXPORT.findall(sources[name])
    text = _EXPORT.sub("", _IMPORT.sub(import_names, sources[name])).strip()
    other = _OTHER.search(text)
    if other:
        raise ValueError(f"{name} has {other[0]!r}, a form of import or export that is not supported")
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exported)} }};\n}})();'
