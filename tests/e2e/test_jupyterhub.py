"""A real JupyterHub with https under a host name: its login, and a canvas in the JupyterLab that it starts for its user.

The road of the frames is jupyter-server-proxy's, behind the hub's own; so is that of a page of `rfb_gpu.serve`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import sys
import urllib.parse

import pytest
from certipy import Certipy
from playwright.sync_api import Page

from tests.e2e import harness
from tests.e2e.test_canvas import EXACT, assert_shows
from tests.e2e.test_road import wait_road

USER = "ada"
HOST = "hub.example"
PROXY = pathlib.Path(__file__).parent / "jupyterhub/node_modules/.bin/configurable-http-proxy"
CELLS = [
    harness.SCENE,
    "a = make(decoder='webgpu')\na",
    "b = make(transport='comm')\nb",
]


@dataclasses.dataclass
class UserServer(harness.JupyterServer):
    """The Jupyter server of the hub's user. Who has no login is told nothing, so a page is asked, which has one."""

    client: Page | None = None

    def session(self, notebook):
        return self.client.evaluate(
            "path => [...jupyterapp.serviceManager.sessions.running()].find(session => session.path === path)",
            notebook,
        )


CONFIG = """
c = get_config()
c.JupyterHub.bind_url = "https://127.0.0.1:{port}/"
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.ssl_key, c.JupyterHub.ssl_cert = {key!r}, {certificate!r}
c.JupyterHub.db_url = "sqlite://"
c.JupyterHub.cookie_secret_file = {folder!r} + "/cookie_secret"
c.ConfigurableHTTPProxy.command = [{proxy!r}]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.ConfigurableHTTPProxy.pid_file = {folder!r} + "/proxy.pid"
# Anybody with any password; the users are none of the system's.
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {folder!r} + "/home-{{username}}"
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.args = {options!r}
c.Spawner.environment = {environment!r}
"""


@contextlib.contextmanager
def running_hub(folder):
    """Run a JupyterHub; gives the server of its user, which starts with the login."""
    if not PROXY.exists():
        raise RuntimeError("JupyterHub's proxy is not installed; `make setup` installs it")
    port, hub_port, api_port = (harness.free_port() for _ in range(3))
    server = UserServer(**vars(harness.jupyter_files(folder, f"https://{HOST}:{port}/user/{USER}/")))
    store = Certipy(store_dir=str(folder / "certificates"))
    store.create_ca("ca")
    files = store.create_signed_pair("hub", "ca", alt_names=[f"DNS:{HOST}"])["files"]
    kept = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR",) if name in os.environ}
    config = folder / "jupyterhub_config.py"
    config.write_text(
        CONFIG.format(
            port=port,
            hub_port=hub_port,
            api_port=api_port,
            folder=str(folder),
            proxy=str(PROXY),
            python=sys.executable,
            key=str(files["key"]),
            certificate=str(files["cert"]),
            options=harness.jupyter_options(server),
            environment={**kept, **harness.jupyter_environment(server)},
        )
    )
    command = [sys.executable, "-m", "jupyterhub", "--config", str(config)]
    with harness.running_server(command, f"http://127.0.0.1:{hub_port}/hub/health", server.log):
        yield server


@pytest.fixture(scope="module")
def hub(browsers, tmp_path_factory):
    """A notebook that is open in the hub's JupyterLab, all its cells run, in a page that has logged in."""
    folder = tmp_path_factory.mktemp("jupyterhub")
    with running_hub(folder) as server:
        context = browsers(1.0).new_context(no_viewport=True, ignore_https_errors=True)
        context.set_default_timeout(harness.ACTION_SECONDS * 1000)
        harness.write_notebook(server.root / "hub.ipynb", CELLS)
        page = server.client = context.new_page()
        page.goto(urllib.parse.urljoin(server.url, "/"))
        page.get_by_label("Username").fill(USER)
        page.get_by_label("Password").fill("any")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{server.url}**")
        notebook = harness.Notebook(page, server, "hub.ipynb", folder)
        notebook.open()
        notebook.run_all()
        yield notebook
        notebook.kernel.close()
        context.close()


@pytest.fixture(autouse=True)
def page_of_report(hub, request):
    request.node.funcargs["page"] = hub.page


def drag_turns(canvas, kernel, name):
    before, shown = canvas.screenshot(), canvas.frame
    canvas.drag((0.3, 0.5), (0.7, 0.6))
    canvas.wait_rest(after=shown)
    assert harness.psnr(canvas.screenshot(), before) < 30, "it turned"
    assert_shows(canvas, kernel, f"pixels({name})")


def test_frames_come_by_websocket_through_the_hub(hub):
    canvas = hub.canvas(0)
    canvas.wait_decoder("webgpu")
    wait_road(canvas, "websocket")
    canvas.wait_final()
    assert_shows(canvas, hub.kernel, "pixels(a)", EXACT)
    drag_turns(canvas, hub.kernel, "a")
    assert canvas.locator.get_attribute("data-rfb-road") == "websocket"
    assert "frames come by websocket" in hub.kernel.value("a.describe()")
    # Nobody else knows this address.
    port = hub.kernel.value("a._rfb_roads._road.port")
    assert f"101 GET /user/{USER}/proxy/{port}/ ({USER}@" in hub.server.log.read_text()


def test_over_the_notebooks_own_channel_through_the_hub(hub):
    canvas = hub.canvas(1)
    canvas.wait_final()
    assert_shows(canvas, hub.kernel, "pixels(b)", EXACT)
    drag_turns(canvas, hub.kernel, "b")
    assert canvas.locator.get_attribute("data-rfb-road") == "comm"
    assert "over the comm (asked for)" in hub.kernel.value("b.describe()")


def test_a_reloaded_page_of_the_hub_shows_the_picture(hub):
    hub.save()
    hub.reload()
    canvas = hub.canvas(0)
    wait_road(canvas, "websocket")
    canvas.wait_final()
    assert_shows(canvas, hub.kernel, "pixels(a)")


@pytest.fixture
def served_at(hub):
    """The address of a canvas `c` that a server in the notebook's kernel serves, by the rule of jupyter-server-proxy."""
    said = hub.kernel.run(
        "import rfb_gpu\nc = make(title='served', decoder='webgpu')\nrfb_gpu.serve(c, port=0)"
    )
    port, query = re.search(r"http://127\.0\.0\.1:(\d+)/(\?token=\S+)", said).groups()
    yield f"{hub.server.url}proxy/{port}/{query}"
    hub.kernel.run("c.close()")


def test_a_served_page_behind_the_hub(hub, served_at, request):
    size = {"width": 360, "height": 240}
    page = request.node.funcargs["page"] = hub.page.context.new_page()
    log = []
    page.on("console", lambda message: log.append(message.text))
    page.set_viewport_size(size)
    page.goto(served_at)
    canvas = harness.Canvas(page, page.locator("canvas.rfb-gpu-canvas"))
    canvas.wait_size(*size.values())
    canvas.wait_decoder("webgpu")
    assert page.get_by_role("button", name="Take control").is_hidden(), "the notebook does not show it"
    canvas.wait_final()
    assert_shows(canvas, hub.kernel, "pixels(c)", EXACT)
    drag_turns(canvas, hub.kernel, "c")
    assert log == []

    page.goto(served_at.partition("?")[0] + "?token=x")
    assert "Open the address that the server has printed" in page.inner_text("body")
    page.close()


def test_a_stranger_with_the_served_pages_address_is_asked_to_log_in(hub, served_at):
    context = hub.page.context.browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(served_at)
    page.get_by_label("Password").wait_for()
    assert page.locator("canvas").count() == 0
    context.close()


def test_a_frame_that_the_proxy_refuses_costs_the_road_for_a_while_and_not_the_picture(hub):
    """Of more than 10 MiB, at which jupyter-server-proxy closes the websocket."""
    canvas = hub.canvas(0)
    wait_road(canvas, "websocket")
    canvas.wait_final()
    shown = canvas.frame
    hub.kernel.run(
        "import io\n"
        "from PIL import Image\n"
        "from tests.e2e.scene import send_file\n"
        "file = io.BytesIO()\n"
        "Image.new('RGB', (320, 240)).save(file, 'JPEG')\n"
        "comment = b'\\xff\\xfe\\xff\\xff' + bytes(65533)\n"
        "file = file.getvalue()\n"
        "send_file(a, file[:2] + 170 * comment + file[2:], 320, 240)"
    )
    wait_road(canvas, "comm", timeout=10)
    canvas.wait_final(after=shown)
    assert_shows(canvas, hub.kernel, "pixels(a)")
    wait_road(canvas, "websocket", timeout=20)
    drag_turns(canvas, hub.kernel, "a")
