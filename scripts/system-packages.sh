#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that pip cannot bring: a Vulkan driver (any, a CPU one will do) for the demo, and
# Chromium, Firefox, a font, pngcheck, an X server without a screen and OpenGL by EGL besides for the tests. Does nothing when all is
# there. As root it installs them; otherwise it prints the command and fails only if the work cannot go on without.
#
# usage: scripts/system-packages.sh demo|test
set -euo pipefail

purpose=${1:?usage: $0 demo|test}
python=${PYTHON:-python3}
needed=()
wished=()

has_vulkan() {
    compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null || compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null ||
        [[ -n "${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-}" ]]
}

# The names that tests/e2e/harness.py looks for.
has_chromium() {
    if [[ -n "${CHROMIUM:-}" ]]; then
        [[ -x "$CHROMIUM" ]]
    else
        command -v chromium || command -v chromium-browser || command -v google-chrome
    fi >/dev/null
}

if ! command -v "$python" >/dev/null; then
    needed+=(python3 python3-venv)
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    needed+=(python3-venv)
fi
# macOS draws with Metal and Windows with Direct3D 12: both bring their own driver.
if [[ $(uname) == Linux ]] && ! has_vulkan; then
    needed+=(mesa-vulkan-drivers)
fi
if [[ $purpose == test ]]; then
    has_chromium || needed+=(chromium)
    [[ $(uname) != Linux || -d /usr/share/fonts/truetype/dejavu ]] || wished+=(fonts-dejavu-core)
    command -v pngcheck >/dev/null || wished+=(pngcheck)
    command -v firefox-esr >/dev/null || command -v firefox >/dev/null || wished+=(firefox-esr)
    # A display of its own for a browser, and its keys.
    [[ $(uname) != Linux ]] || { command -v Xvfb && command -v xdotool; } >/dev/null || wished+=(xvfb xdotool)
    # Mesa's OpenGL by EGL, for vispy, which looks for these two libraries.
    for library in libEGL.so.1 libGL.so.1; do
        [[ $(uname) != Linux ]] || compgen -G "/usr/lib*/$library" >/dev/null || compgen -G "/usr/lib/*/$library" >/dev/null ||
            wished+=(libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri)
    done
fi

packages=("${needed[@]}" "${wished[@]}")
[[ ${#packages[@]} -gt 0 ]] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Please install what these Debian packages hold, with this system's own means: ${packages[*]}" >&2
    [[ " ${needed[*]} " != *" chromium "* ]] || echo "CHROMIUM=/path/to/chrome names a browser outside PATH." >&2
elif [[ $(id -u) == 0 ]]; then
    echo "Installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # What is not needed may be unknown to this release: Ubuntu has no firefox-esr.
    packages=("${needed[@]}")
    for package in "${wished[@]}"; do
        if apt-cache show "$package" >/dev/null 2>&1; then packages+=("$package"); fi
    done
    [[ ${#packages[@]} -eq 0 ]] || apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null
    exit 0
else
    echo "These packages are missing, and installing them needs root. Please run:" >&2
    echo "  sudo apt-get install -y ${packages[*]}" >&2
fi
[[ ${#needed[@]} -eq 0 ]]
