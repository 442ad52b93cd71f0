#!/bin/sh
# The wheel and the Debian package are made, and work where nothing else of ours is: in an empty environment of Python
# and in an empty root.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
[ "$MDNN_BUILD" = "$PWD/build" ] || skip_all 'packages are made of the build without checks'
for tool in dh dpkg-buildpackage lintian mmdebstrap; do
    command -v $tool >/dev/null || skip_all "there is no $tool: scripts/setup --packages"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Trains for an epoch on the installed digits, and says with what: a command that has an empty environment but for these.
trains='microdnn run --stats json --stats-file "$stats" --memory 64MiB -- sh -c "echo \$LD_PRELOAD; exec $helpers/train_cnn \
    --data $examples/data --epochs 1 --batch 64 --workspace-limit 64KiB --learning-rate 0.05"'

learned() { # output, statistics, library
    grep -q 'test accuracy' "$1" && [ "$(head -n 1 "$1")" = "$3" ] && grep -q '"memory"' "$2" || {
        cat "$1"
        return 1
    }
}

# ---- the wheel ----

venv=$work/venv
in_venv() { # shell text
    package=$(echo "$venv"/lib/python3*/site-packages/microdnn)
    env -i PATH="$venv/bin:/usr/bin:/bin" LD_LIBRARY_PATH="$MDNN_BUILD/sim" package="$package" stats="$work/stats" \
        helpers="$package/lib/microdnn" examples="$package/share/doc/microdnn/docs/examples" sh -c "$1"
}

wheel_is_for_many() {
    wheel=$(echo "$work"/microdnn-*.whl)
    case $wheel in *-py3-none-manylinux_2_*_*.whl) ;; *) echo "$wheel" && return 1 ;; esac
}

wheel_installs() {
    python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --no-index --no-deps "$work"/microdnn-*.whl &&
        in_venv 'microdnn --version && python -m microdnn --version' >"$work/said" &&
        [ "$(uniq "$work/said")" = "microdnn $(sed -n 's/^VERSION := //p' Makefile)" ]
}

wheel_trains() {
    in_venv "$trains" >"$work/said" 2>&1
    learned "$work/said" "$work/stats" "$(realpath "$venv"/lib/python3*/site-packages/microdnn/lib/libmicrodnn.so)"
}

wheel_solves() {
    in_venv '"$helpers/microdnn-ilp"' <test/fuzz/corpus/ilp_text/problem | grep -qx 'state optimal'
}

# Where there is no matplotlib, the script says so: it was found in any case.
wheel_reports() {
    in_venv 'microdnn report "$stats" -o "$stats.html"' >"$work/said" 2>&1 || grep -q 'package matplotlib' "$work/said" || {
        cat "$work/said"
        return 1
    }
}

wheel_has_its_terms() {
    terms=$(echo "$venv"/lib/python3*/site-packages/microdnn-*.dist-info/licenses)
    cmp LICENSE "$terms/LICENSE" && cmp NOTICE "$terms/NOTICE" && cmp LICENSES/GPL-3.0-or-later.txt "$terms"/LICENSES/GPL-3* &&
        grep -q '^glpk ' "$terms/LICENSES/microdnn-ilp.txt" || return 1
    # Each library that came with the helper has the terms of its package.
    for library in "$venv"/lib/python3*/site-packages/microdnn.libs/*; do
        name=$(basename "$library" | sed 's/-.*//')
        ls "$terms/LICENSES/microdnn-ilp-$name"* >/dev/null || return 1
    done
}

wheel_has_manuals() {
    for page in '1 microdnn' '5 microdnn.ini' '7 libmicrodnn'; do
        # shellcheck disable=SC2086 # two words
        [ "$(in_venv "man -w $page")" = "$venv/share/man/man${page%% *}/${page#* }.${page%% *}" ] || return 1
    done
}

example_builds() {
    for include in build/cuda/include /usr/local/cuda/include /usr/include; do
        [ ! -f "$include/cudnn.h" ] || break
    done
    in_venv "mkdir -p '$work/mine' && cd '$work/mine' && make -s -f \$examples/Makefile CFLAGS=-O1 \
        CPPFLAGS='-isystem $(realpath "$include")' OPTIONS='--epochs 1 --batch 64' LIBRARIES='$MDNN_BUILD/sim/libcudart.so.13 \
        $MDNN_BUILD/sim/libcudnn.so.9 -Wl,--allow-shlib-undefined' run" >"$work/said" 2>&1 && grep -q 'test accuracy' "$work/said" || {
        cat "$work/said"
        return 1
    }
}

wheel_goes() {
    "$venv/bin/pip" uninstall --quiet --yes microdnn && left=$(find "$venv" -iname '*microdnn*') && [ -z "$left" ] || {
        echo "$left"
        return 1
    }
}

# ---- the Debian package ----

root=$work/root
in_root() { # shell text
    folder=/usr/lib/$(${CC:-gcc} -print-multiarch)/microdnn
    unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin \
        LD_LIBRARY_PATH=/sim stats=/stats helpers="$folder" examples=/usr/share/doc/microdnn/docs/examples sh -c "$1"
}

lintian_is_content() {
    said=$(lintian --fail-on error,warning --allow-root "$work"/microdnn_*.deb 2>&1) || {
        echo "$said"
        return 1
    }
}

# Debian's packages come from where this machine gets its own. $work/root_made: what fails after that is ours.
make_root() {
    sources=
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ ! -s "$list" ] || sources="$sources $list"
    done
    # shellcheck disable=SC2086 # a list of files
    mmdebstrap --quiet --mode=root --variant=apt --customize-hook="touch '$work/root_made'" \
        --customize-hook="copy-in $(echo "$work"/microdnn_*.deb) /tmp" \
        --customize-hook='chroot "$1" sh -c "apt-get install --yes --quiet --no-install-recommends /tmp/microdnn_*.deb"' \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" $sources >"$work/log" 2>&1 &&
        mkdir "$root/sim" && cp -L "$MDNN_BUILD"/sim/*.so* "$root/sim"
}

deb_trains() {
    in_root "$trains" >"$work/said" 2>&1
    learned "$work/said" "$root/stats" "/usr/lib/$(${CC:-gcc} -print-multiarch)/microdnn/libmicrodnn.so"
}

deb_solves() {
    in_root '"$helpers/microdnn-ilp"' <test/fuzz/corpus/ilp_text/problem | grep -qx 'state optimal'
}

deb_goes() {
    in_root 'dpkg --purge microdnn' >"$work/said" 2>&1 && left=$(find "$root/usr" "$root/etc" -iname '*microdnn*') && [ -z "$left" ] || {
        cat "$work/said"
        echo "$left"
        return 1
    }
}

plan 16
scripts/packages/make-wheel "$work" >"$work/log" 2>&1
status=$?
if [ $status -eq 3 ]; then
    for name in 'the wheel is made' 'its name' 'it installs' 'it trains' 'its helper' 'its report' 'its terms' 'its manuals' 'its example' 'it goes'; do
        skip "$name" "$(tail -n 1 "$work/log")"
    done
else
    check 'a wheel is made' sh -c "cat '$work/log'; exit $status"
    check 'auditwheel has found it fit for other Linuxes' wheel_is_for_many
    check 'pip installs it where nothing else is, and microdnn is in PATH' wheel_installs
    check 'a program trains with its library under a budget' wheel_trains
    check 'its helper solves a problem' wheel_solves
    check 'it makes a report' wheel_reports
    check 'it has the terms of all that it contains' wheel_has_its_terms
    check 'man finds its pages' wheel_has_manuals
    check 'its example builds in any folder and trains on its digits' example_builds
    check 'pip uninstalls all of it' wheel_goes
fi
check 'a Debian package is made' scripts/packages/make-deb "$work"
check 'lintian has no complaint' lintian_is_content
no_root() { # reason
    for name in 'apt installs it in an empty root' 'a program trains' 'its helper solves a problem' 'dpkg purges all of it'; do
        skip "$name" "$1"
    done
}
if ! unshare --mount --pid --fork true 2>/dev/null; then
    no_root 'this user cannot make an empty root'
else
    make_root
    status=$?
    if [ ! -e "$work/root_made" ]; then
        no_root "no empty root: $(tail -n 1 "$work/log")"
    else
        check 'apt installs it in an empty root' sh -c "cat '$work/log'; exit $status"
        check 'a program trains with its library under a budget' deb_trains
        check 'its helper solves a problem' deb_solves
        check 'dpkg purges all of it' deb_goes
    fi
fi
finish
