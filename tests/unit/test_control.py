"""Who is in control, among pages of a notebook and among those of a server."""

import pytest

from rfb_gpu.flow import Control, Views

NOTEBOOK, SERVER = True, False


class Pages:
    def __init__(self):
        self.views = Views()
        self.control = Control(self.views)

    def come(self, *names, takes_by_use=SERVER):
        for name in names:
            self.views.hello(name, 1)
            self.control.come(name, takes_by_use=takes_by_use)

    def leave(self, name):
        self.views.bye(name)
        self.control.leave(name)

    def event(self, name, kind, **fields):
        return self.control.admits(name, {"type": kind, **fields})

    def resize(self, name, width):
        return self.event(name, "resize", width=width)

    @property
    def holder(self):
        return self.control.holder


@pytest.fixture
def pages():
    return Pages()


def test_of_a_servers_pages_the_first_is_in_control_and_the_others_watch(pages):
    assert pages.holder is None
    pages.come("a", "b")
    assert pages.holder == "a"
    for kind in ("resize", "pointer_down", "pointer_move", "wheel", "key_down", "focus_in", "close"):
        assert pages.event("a", kind) and not pages.event("b", kind), kind
    assert pages.holder == "a"


def test_who_asks_gets_control_and_its_size_with_it(pages):
    pages.come("a", "b")
    pages.resize("a", 100)
    pages.resize("b", 200)
    assert pages.control.size["width"] == 100
    pages.control.ask("b")
    assert pages.holder == "b" and pages.control.size["width"] == 200
    pages.resize("a", 300)
    assert pages.control.size["width"] == 200
    pages.control.ask("nobody")
    pages.control.ask("b")
    assert pages.holder == "b"


def test_a_gesture_is_not_cut_off(pages):
    pages.come("a", "b")
    pages.event("a", "pointer_down")
    pages.control.ask("b")
    assert pages.event("a", "pointer_move") and pages.holder == "a"
    assert pages.event("a", "pointer_up"), "what began comes to its end"
    assert pages.holder == "b"
    assert not pages.event("a", "pointer_down")
    pages.control.ask("a")
    assert pages.holder == "a", "b has begun none"


def test_when_the_controller_leaves_who_asked_follows_or_who_came_first(pages):
    pages.come("a", "b", "c", "d")
    pages.leave("b")
    assert pages.holder == "a"
    pages.event("a", "pointer_down")
    pages.control.ask("d")
    pages.leave("a")
    assert pages.holder == "d"
    pages.leave("d")
    assert pages.holder == "c"
    pages.leave("c")
    assert pages.holder is None and pages.control.size is None
    pages.come("e")
    assert pages.holder == "e" and pages.control.size is None


def test_who_asked_and_left_gets_nothing(pages):
    pages.come("a", "b")
    pages.event("a", "pointer_down")
    pages.control.ask("b")
    pages.leave("b")
    assert pages.event("a", "pointer_up")
    assert pages.holder == "a"


def test_who_was_forgotten_for_its_silence_has_left(pages):
    pages.come("a", "b")
    pages.views.bye("a")
    assert pages.event("b", "pointer_move"), "nobody told the control"
    assert pages.holder == "b"


@pytest.mark.parametrize("kind", ["pointer_down", "key_down", "focus_in", "close"])
def test_in_a_notebook_the_view_used_last_is_in_control(pages, kind):
    pages.come("a", "b", takes_by_use=NOTEBOOK)
    pages.resize("a", 100)
    pages.resize("b", 200)
    assert pages.holder == "b", "to open a page is to use it"
    for passive in ("pointer_move", "pointer_enter", "wheel"):
        assert not pages.event("a", passive)
    assert not pages.resize("a", 150)
    assert pages.event("a", kind)
    assert pages.holder == "a" and pages.control.size["width"] == 150
    pages.come("b", takes_by_use=NOTEBOOK)
    assert pages.holder == "a", "a new epoch is no new page"


def test_a_reload_in_a_notebook_has_the_size_at_once_even_if_the_old_page_said_no_goodbye(pages):
    pages.come("old", takes_by_use=NOTEBOOK)
    pages.resize("old", 100)
    pages.come("new", takes_by_use=NOTEBOOK)
    assert pages.resize("new", 200) and pages.control.size["width"] == 200


def test_a_page_that_shows_nothing_holds_nothing_against_one_that_does(pages):
    """A notebook's page knows each canvas of its kernel, and shows only those that are a cell's output."""
    pages.come("notebook", takes_by_use=NOTEBOOK)
    pages.come("a", "b")
    assert pages.resize("a", 100)
    assert pages.holder == "a" and pages.control.size["width"] == 100
    pages.resize("b", 200)
    pages.come("another notebook", takes_by_use=NOTEBOOK)
    assert pages.holder == "a"
    pages.leave("a")
    assert pages.holder == "b", "though the notebook's page came first"


def test_a_notebooks_page_takes_control_when_it_shows_the_canvas(pages):
    pages.come("a")
    pages.resize("a", 100)
    pages.come("notebook", takes_by_use=NOTEBOOK)
    assert pages.resize("notebook", 200)
    assert pages.holder == "notebook"
    pages.control.ask("a")
    assert not pages.resize("notebook", 300), "only once"
    assert pages.holder == "a"
