#!/bin/sh
# The tests that need servers from outside Python, or long; as root on Debian and Ubuntu what is missing is installed.
# Arguments go to pytest. What cannot be had is skipped and listed; with CI_FULL set it fails.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh browser

missing=
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing="$missing rabbitmq-server"
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v openssl >/dev/null || missing="$missing openssl"
[ -x /usr/sbin/nginx ] || missing="$missing nginx"
[ -e /usr/lib/nginx/modules/ngx_http_modsecurity_module.so ] || missing="$missing libnginx-mod-http-modsecurity"
[ -d /usr/share/modsecurity-crs/rules ] || missing="$missing modsecurity-crs"
[ -x /usr/bin/chromium ] || missing="$missing chromium"
faq=/usr/share/doc/debian/FAQ
[ -e $faq/index.en.html ] || missing="$missing debian-faq"
[ -e $faq/zh-cn/index.zh-cn.html ] || missing="$missing debian-faq-zh-cn"

policy=/usr/sbin/policy-rc.d
kept=$policy.kept-by-ratelane

restore() {
    rm -f "$policy"
    if [ -e "$kept" ]; then mv "$kept" "$policy"; fi
}

install() {
    # tests start servers of their own; the packages' services must run neither now nor after the next boot
    if [ -e "$policy" ]; then mv "$policy" "$kept"; fi
    trap restore EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    for package in "$@"; do
        # small images leave documentation out, and manuals are what two of the packages are wanted for
        apt-get install -y -qq --no-install-recommends -o "Dpkg::Options::=--path-include=$faq/*" "$package" >/dev/null ||
            echo "acceptance: could not install $package" >&2
        if [ -d /run/systemd/system ]; then systemctl disable --quiet "$package" 2>/dev/null || true; fi
    done
}

if [ -n "$missing" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "acceptance: installing$missing" >&2
    # a shell of its own, so that what it traps ends with it
    # shellcheck disable=SC2086
    (install $missing) || echo "acceptance: not all could be installed of$missing" >&2
fi
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest -m acceptance "$@"
fi
# what judges moments runs beside one other such test, what measures speed alone; everything else shares the cores
status=0
.venv/bin/python -m pytest -m "acceptance and not exclusive and not paired" -n 2 --dist worksteal || status=$?
.venv/bin/python -m pytest -m "acceptance and paired" -n 2 --dist worksteal || status=$?
.venv/bin/python -m pytest -m "acceptance and exclusive" || status=$?
exit "$status"
