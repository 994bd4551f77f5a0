# SPDX-License-Identifier: Apache-2.0
"""The site: built strictly, without a dead link, complete, and readable without a network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import denizen

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("mkdocs", reason="mkdocs is not installed (the group docs)")
sys.path.insert(0, str(ROOT / "tools/docs"))

import home  # noqa: E402


def build(root, out):
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "-f",
            str(root / "mkdocs.yml"),
            "-d",
            str(out),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def copy(tmp_path):
    """A tree that the site is built of, to spoil."""
    for name in (
        "docs",
        "python",
        "tools/docs",
        "include",
        "dsp/include",
        "benchmarks/results",
        "examples",
    ):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for app in ("graph", "procmine", "radio", "transactions", "wave"):
        shutil.copytree(ROOT / f"apps/{app}/include", tmp_path / f"apps/{app}/include")
    for name in (
        "lens",
        "tests/lens/captures",
        "tests/fuzz",
        "tests/install",
        "tests/device/orders",
        "tests/model",
        "tests/simulation",
        "tests/actor",
        "tests/wire",
        "benchmarks/arms",
    ):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tools/lens-classes", tmp_path / "tools/lens-classes")
    # Its pages are not read: neither coloured nor indexed, which takes half of a build's time.
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    for there, instead in (("  - search\n", ""), ("anchor_linenums:", "use_pygments:")):
        assert config.count(there) == 1
        config = config.replace(there, instead)
    (tmp_path / "mkdocs.yml").write_text(config, "utf-8")
    return tmp_path


def test_nothing_is_loaded_from_a_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text):
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), (
                f"{page.name}: {tag}"
            )
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", sheet.read_text("utf-8")), (
            sheet
        )


def test_every_link_within_the_site_leads_somewhere(site):
    """MkDocs looks at Markdown's links; here are all, of figures and of generated pages too."""
    for page in site.rglob("*.html"):
        for target in re.findall(r'href="([^"#?]+)[^"]*"', page.read_text("utf-8")):
            if re.match(r"[a-z]+:|/", target):
                continue
            assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"


def test_every_doc_is_in_the_navigation(site):
    index = (site / "index.html").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="{page.stem}.html"' in index, page.name


def test_every_public_name_of_the_package_is_in_the_reference(site):
    page = (site / "reference/python/denizen.html").read_text("utf-8")
    for name in denizen.__all__:
        assert re.search(rf'id="denizen\.(?:{name}\.)?{name}"', page), name
    assert 'id="denizen.Runtime.ask"' in page


def test_the_cpp_reference_has_what_is_public_and_no_more(site):
    page = re.sub(r"<[^>]+>", "", (site / "reference/cpp/wire.html").read_text("utf-8"))
    assert (
        "Waits on the ring" in page and "only policy that lets an idle consumer use no CPU" in page
    )
    assert "Errc try_send(const Header&amp; h, const void* payload);" in page
    assert "credit_" not in page and "refuse_send" not in page  # private; detail
    actor = re.sub(r"<[^>]+>", "", (site / "reference/cpp/actor.html").read_text("utf-8"))
    assert "class Context" in actor or "struct Context" in actor


def test_no_table_is_left_as_text(site):
    for page in site.glob("*.html"):
        assert "| --- |" not in page.read_text("utf-8"), page.name


def test_no_list_is_left_as_text(site):
    """One needs an empty line before it here, though not everywhere."""
    for page in site.rglob("*.html"):
        paragraphs = re.findall(r"<p>(.*?)</p>", page.read_text("utf-8"), re.S)
        assert [text for text in paragraphs if "\n- " in text] == [], page.name


def test_the_home_pages_numbers_are_the_records(site):
    page = (site / "index.html").read_text("utf-8")
    numbers = re.findall(r"<b>([^<]+)</b>", page)
    assert numbers[:3] == [
        f"{home.WAYS[0][1].median:.1f} µs",
        f"{home.MESSAGES.median / 1000:.1f} billion",
        f"{home.INSIDE.median:.1f} µs",
    ]
    assert page.count("<figure") == 1


def test_links_between_files_of_the_tree_lead_somewhere():
    """As a forge shows them, outside the site: README.md and its like, and the docs among them."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*.md")]
    pages += [ROOT / "benchmarks/results/README.md", ROOT / "python/denizen/tour/data/README.md"]
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
        text = re.sub(r"`[^`\n]*`", "", text)
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            if "://" in target or target.startswith("reference/"):  # made for the site
                continue
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_dead_links_and_wrong_numbers_are_errors(copy, tmp_path):
    with (copy / "docs/tour.md").open("a") as page:
        page.write("\n[nowhere](nothing.md), [nowhere](tutorial.md#nothing)\n")
    page = copy / "docs/when.md"
    quote = r'\[[\d.]+\](?=\([^)]*"launch \+ sync")'
    text, changed = re.subn(quote, "[10.75]", page.read_text("utf-8"))
    assert changed == 1
    page.write_text(text, "utf-8")
    (copy / "docs/lost.md").write_text("# A page that no navigation has\n")
    done = build(copy, tmp_path / "out")
    assert done.returncode != 0
    assert "nothing.md" in done.stderr
    assert "#nothing" in done.stderr
    assert '10.75 is quoted for "launch + sync"' in done.stderr
    assert "lost.md" in done.stderr
    assert done.stderr.count("WARNING") == 4, done.stderr


def test_no_page_installs_by_a_name_that_no_index_has():
    """The project is on no package index: its extras are those of a checkout, '.[handlers]'."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    for page in [*pages, *ROOT.glob("examples/*"), *ROOT.glob("python/**/*.py")]:
        found = re.search(r"pip install ['\"]?denizen\b.*", page.read_text("utf-8"))
        assert found is None, f"{page}: {found[0]}"
