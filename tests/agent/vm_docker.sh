#!/bin/sh
# A docker for simulated machines (gpuferry-sim --vm-docker): every image is there to be pulled and is this very machine, and a
# container is what the client becomes. For tests of all parts together; fake_docker.py is the one that records and misbehaves.
state=${VM_DOCKER_STATE:-/var/tmp/vm-docker}
mkdir -p "$state/images" "$state/containers"
[ "$1" = --config ] && shift 2
verb=$1
shift
file_of() { printf '%s' "$1" | tr -c 'a-zA-Z0-9.-' _; }
case $(uname -m) in aarch64) arch=arm64 ;; *) arch=amd64 ;; esac

case $verb in
ps)
    for one in "$state"/containers/*; do
        [ -e "$one" ] || continue
        # An id is hexadecimal; here it is the process.
        kill -0 "$(cat "$one")" 2>/dev/null && printf '%012d\n' "$(cat "$one")"
    done
    exit 0
    ;;
login) cat >/dev/null && echo 'Login Succeeded' ;;
pull)
    echo '4f4fb700ef54: Pulling fs layer'
    echo '4f4fb700ef54: Pull complete'
    : >"$state/images/$(file_of "$1")"
    ;;
image)
    shift  # inspect
    while [ $# -gt 1 ]; do shift; done
    [ -e "$state/images/$(file_of "$1")" ] || { echo "Error response from daemon: No such image: $1" >&2; exit 1; }
    echo "$arch null"
    ;;
inspect) echo false ;;
rm)
    for name; do
        for one in "$state"/containers/*; do
            [ -e "$one" ] || continue
            pid=$(cat "$one")
            [ "$(basename "$one")" = "$name" ] || [ "$(printf '%012d' "$pid")" = "$name" ] || continue
            kill -9 "$pid" 2>/dev/null
            rm -f "$one"
        done
    done
    exit 0
    ;;
run)
    name=unnamed entry= folder=/
    while :; do
        case $1 in
        --name) name=$2 && shift 2 ;;
        --entrypoint) entry=$2 && shift 2 ;;
        --workdir) folder=$2 && shift 2 ;;
        --rm | --no-healthcheck | --sig-proxy=*) shift ;;
        --*) shift 2 ;;
        *) break ;;
        esac
    done
    shift  # the image
    echo $$ >"$state/containers/$name"
    cd "$folder" && exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root OF_IMAGE=yes "$entry" "$@"
    ;;
*)
    echo "docker: '$verb' is not a docker command." >&2
    exit 1
    ;;
esac
