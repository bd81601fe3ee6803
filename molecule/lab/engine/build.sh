#!/usr/bin/env bash
# Makes everything the lab serves with, once, into the host's docker engine and the cache folder:
#   gb10-lab/engine:0.32.0       real vLLM for the CPU, without Ray, as today's published images are
#   gb10-lab/engine:0.32.0-ray   the same with Ray
#   <cache>/wheels               a package index with Ray and what else a derived image needs
#   <cache>/models               the tiny model that the lab's hub gives out
# An unchanged tree does nothing. `build.sh --print` says what there is, `build.sh --remove` takes the images away.
#
# No builder of any version is needed: a layer is what `docker run` changed, committed. The wheels are fetched by the
# host's own pip with the host's own settings, so a container never needs a network, a proxy or a certificate.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${GB10_LAB_CACHE:-$HOME/.cache/gb10-cluster}
python=${GB10_LAB_PYTHON:-python3}
torch_index=${GB10_LAB_TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
stock=${GB10_LAB_BASE_IMAGE:-debian:bookworm-slim}
suite=bookworm
version=0.32.0
image=gb10-lab/engine:$version
parts=gb10-lab/engine-part
# Not the lab's own label: containers inherit an image's labels, and the lab removes by that one what it finds.
label=org.gb10.engine
model=gb10-lab/tiny-qwen3
# What the image needs from the distribution; strip, of binutils, takes symbols out of libraries while the image is made.
packages=binutils,ca-certificates,libnuma1,libstdc++6,python3
worker=gb10-lab-engine-build-$$
stage=$cache/engine
log=$stage/build.log

# A container is committed with the command that it ran; the finished images start what the published ones start.
upstream=('ENTRYPOINT ["vllm","serve"]' 'CMD []')
# What a processor needs in place of a GPU lives in the image, so that the product starts it as any other. Without Dynamo nothing is
# compiled at run time, for which a CPU would need a compiler and headers, 200 MB that each node stores and the rail carries.
environment='VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind TORCHDYNAMO_DISABLE=1'

started=$SECONDS
say() { printf '%s\n' "$*"; }
die() { printf 'molecule/lab/engine/build.sh: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n --preserve-env=http_proxy,https_proxy "$@"; fi; }
# A user who is not of the group docker asks the engine by sudo, as the rest of the lab does.
if ! docker version >/dev/null 2>&1; then docker() { as_root "$(type -P docker)" "$@"; }; fi
step() { # step SENTENCE COMMAND...: say what is done and how long it took, keep its output for the case of failure
    local sentence=$1 from=$SECONDS
    shift
    say "$sentence ..."
    # Not "if ! ...": bash would then let every failure inside the function pass.
    set +e
    (set -e; "$@") >>"$log" 2>&1
    local status=$?
    set -e
    if [ $status != 0 ]; then
        tail -n 25 "$log" >&2
        die "this step failed: $sentence (the whole log: $log)"
    fi
    say "${sentence% (*}: done in $((SECONDS - from)) s"
}
digest() { cat -- "$@" | sha256sum | cut -c1-12; }
has_image() { docker image inspect "$1" >/dev/null 2>&1; }
cleanup() {
    docker rm -f "$worker" >/dev/null 2>&1 || true
    [ -z "${fetcher:-}" ] || kill -- -"$fetcher" 2>/dev/null || true
}

# ---- wheels: fetched on the host, by name and pinned version -------------------------------------------------------
fetch() {
    local machine platforms=(--platform any) glibc group
    machine=$(docker info --format '{{.Architecture}}')
    [ "$machine" != arm64 ] || machine=aarch64
    for glibc in $(seq 5 36); do platforms+=(--platform "manylinux_2_${glibc}_$machine"); done
    for group in 1 2010 2014; do platforms+=(--platform "manylinux${group}_$machine"); done
    local options=(download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11
        --implementation cp --abi cp311 --abi abi3 --abi none "${platforms[@]}" -d "$stage/wheels")
    local jobs=() job failed=0
    # The largest list in two halves: pip asks for one package after the other.
    split -n l/2 "$here/layers/dependencies.lock" "$stage/half."
    for group in "$stage"/half.*; do "$python" -m pip "${options[@]}" -r "$group" & jobs+=($!); done
    # PyTorch's own index only where the machine has no such wheel: pip asks every index it is told of, for minutes.
    { "$python" -m pip "${options[@]}" -r "$here/layers/torch.lock" ||
        "$python" -m pip "${options[@]}" --extra-index-url "$torch_index" -r "$here/layers/torch.lock"; } & jobs+=($!)
    "$python" -m pip "${options[@]}" pip==26.3 -r "$here/layers/vllm.lock" -r "$here/layers/ray.lock" & jobs+=($!)
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
    rm -f "$stage"/half.*
    [ "$failed" = 0 ] || return 1
    touch "$stage/wheels/.fetched-$fetch_key"
}
await_fetch() {
    [ -n "${fetcher:-}" ] || return 0
    local from=$SECONDS
    if ! wait "$fetcher"; then
        tail -n 20 "$stage/fetch.log" >&2
        die "the wheels could not be fetched (the whole log: $stage/fetch.log)"
    fi
    fetcher=
    say "The wheels are here, after another $((SECONDS - from)) s"
}

# ---- images --------------------------------------------------------------------------------------------------------
commit() { # commit TAG KEY CHANGE...
    local tag=$1 changes=(--change "LABEL $label=$2") change
    shift 2
    for change in "$@"; do changes+=(--change "$change"); done
    docker commit "${changes[@]}" "$worker" "$tag"
    docker rm "$worker"
}
# shellcheck disable=SC2016 # apt expands these itself
mirror() { # the URI from which this host's own package manager takes the suite; debootstrap knows one if it has none
    apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
        awk -v suite="$suite" '$2 == suite { print $1; exit }'
}
registry_answers() { timeout 20 docker manifest inspect "$stock"; }
base_from_registry() {
    docker pull -q "$stock"
    docker run --name "$worker" --network host -e DEBIAN_FRONTEND=noninteractive -e http_proxy -e https_proxy "$stock" sh -ec "
        apt-get -q update
        apt-get -qy install --no-install-recommends $(tr , ' ' <<<"$packages")
        $(lean)"
    commit "$parts:base-$base_key" "$base_key" 'ENV LANG=C.UTF-8'
}
lean() { # what a container never reads, and the mark that keeps pip from the system's own Python
    echo 'apt-get clean
        rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/* /usr/share/doc /usr/share/man /usr/share/locale \
            /usr/share/info /usr/lib/python3*/EXTERNALLY-MANAGED /usr/bin/*-ld.gold /usr/bin/*-dwp'
}
base_from_debootstrap() {
    command -v debootstrap >/dev/null || { echo "no registry has $stock and debootstrap is not installed: run molecule/lab/host.sh first"; return 1; }
    local root=$stage/rootfs from
    from=$(mirror)
    as_root rm -rf --one-file-system "$root"
    mkdir -p "$cache/debs"
    as_root debootstrap --variant=minbase --cache-dir="$cache/debs" --include="$packages" "$suite" "$root" ${from:+"$from"}
    as_root chroot "$root" sh -ec "$(lean)"
    as_root tar --numeric-owner --one-file-system -C "$root" -c . |
        docker import --change "LABEL $label=$base_key" --change 'ENV LANG=C.UTF-8' --change 'CMD ["bash"]' - "$parts:base-$base_key"
    as_root rm -rf --one-file-system "$root"
}
layer() { # layer NAME PARENT TAG KEY CHANGE...
    local name=$1 parent=$2
    shift 2
    docker run --name "$worker" --network none -v "$stage/mount:/mnt:ro" -v "$stage/wheels:/mnt/wheels:ro" \
        --entrypoint python3 "$parent" -B /mnt/install_layer.py "$name"
    commit "$@"
}
make_model() {
    local target=$cache/models
    mkdir -p "$target"
    docker run --rm --name "$worker" --network none -v "$here/make_model.py:/make_model.py:ro" -v "$target:/models" \
        --entrypoint python3 "$parts:vllm-$vllm_key" -B /make_model.py /models "$model"
    echo "$model_key" >"$target/.key"
}
warm() { # serve once, so that the image carries byte code for what it imports, and no image that cannot answer is tagged
    docker run --name "$worker" --network none --shm-size 256m -v "$stage/mount:/mnt:ro" \
        -v "$cache/models/$model/$(cat "$cache/models/$model/main"):/mnt/model:ro" --entrypoint python3 "$parts:vllm-$vllm_key" -B /mnt/warm.py
    commit "$image" "$plain_key" "${upstream[@]}"
}
prune() { # parts that this tree no longer makes
    local tag
    for tag in $(docker image ls --format '{{.Tag}}' "$parts"); do
        case $tag in *-"$base_key" | *-"$torch_key" | *-"$deps_key" | *-"$vllm_key") ;; *) docker rmi "$parts:$tag" ;; esac
    done
    docker image prune -f --filter "label=$label"
}

# ---- what would be made from this tree: every part's name holds a hash of all that goes into it -------------------
recipe() { declare -f "$@"; } # the text of the functions that make a part
base_key=$(recipe lean base_from_registry base_from_debootstrap | digest - <(echo "$suite $packages $stock"))
torch_key=$(recipe layer | digest - <(echo "$base_key") "$here/install_layer.py" "$here/layers/torch.lock")
deps_key=$(digest <(echo "$torch_key") "$here/layers/dependencies.lock")
vllm_key=$(digest <(echo "$deps_key $environment") "$here/layers/vllm.lock" "$here"/plugin/*.pth "$here"/plugin/*/*)
model_key=$(digest "$here/make_model.py" "$here/layers/dependencies.lock" "$here/layers/torch.lock")
plain_key=$(recipe warm | digest - <(echo "$vllm_key $model_key ${upstream[*]}") "$here/warm.py")
ray_key=$(digest <(echo "$plain_key") "$here/layers/ray.lock")
wheels_key=$(digest "$here/layers/ray.lock" "$here/wheel_index.py")
fetch_key=$(digest "$here"/layers/*.lock)

label_of() { docker image inspect -f "{{index .Config.Labels \"$label\"}}" "$1" 2>/dev/null || true; }
is_current() {
    [ "$(label_of "$image")" = "$plain_key" ] && [ "$(label_of "$image-ray")" = "$ray_key" ] &&
        [ "$(cat "$cache/models/.key" 2>/dev/null)" = "$model_key" ] && [ "$(cat "$cache/wheels/.key" 2>/dev/null)" = "$wheels_key" ]
}
print() {
    docker image ls --format '{{.Repository}}:{{.Tag}}  {{.Size}}' gb10-lab/engine
    [ ! -f "$cache/models/$model/main" ] || say "$model  revision $(cat "$cache/models/$model/main")"
    [ ! -d "$cache/wheels" ] || say "wheels  $cache/wheels"
}

case ${1:-} in
    --print) print; exit 0 ;;
    --remove)
        for tag in "$image-ray" "$image" $(docker image ls --format '{{.Repository}}:{{.Tag}}' "$parts"); do
            docker rmi "$tag" >/dev/null 2>&1 || true
        done
        exit 0 ;;
    --check) is_current; exit ;;
    '') ;;
    *) die "unknown argument $1 (--print, --check, --remove or none)" ;;
esac
docker info >/dev/null 2>&1 || die 'no docker engine answers: run molecule/lab/host.sh first'
unchanged() { # ends the run where there is nothing to do
    is_current || return 0
    say "The engine images, the model and the wheels are up to date."
    exit 0
}
unchanged
mkdir -p "$stage/wheels" "$stage/mount"
exec 9>"$stage/lock"
flock -w 1800 9 || die "another build has held $stage/lock for half an hour"
unchanged # another build may just have made it
: >"$log"
trap cleanup EXIT
trap 'exit 130' INT TERM

rm -rf "$stage/mount" && mkdir -p "$stage/mount/wheels" "$stage/mount/model"
cp -r "$here/install_layer.py" "$here/warm.py" "$here/layers" "$here/plugin" "$stage/mount/"
if [ ! -e "$stage/wheels/.fetched-$fetch_key" ]; then
    say "Fetching vLLM, torch and their requirements with this machine's pip, in the background (about 800 MB are on disk afterwards)"
    rm -f "$stage"/wheels/.fetched-*
    # A process group of its own, so that an aborted build ends every pip with it, whatever wraps it.
    set -m
    (set +m; fetch) >"$stage/fetch.log" 2>&1 9>&- &
    fetcher=$!
    set +m
fi
if ! has_image "$parts:base-$base_key"; then
    if registry_answers >>"$log" 2>&1; then
        step "Making the base of the engine image from $stock (a minute)" base_from_registry
    else
        step "Making the base of the engine image with debootstrap, as no registry answers (two minutes)" base_from_debootstrap
    fi
fi
await_fetch
has_image "$parts:torch-$torch_key" || step "Installing torch (half a minute)" layer torch "$parts:base-$base_key" "$parts:torch-$torch_key" "$torch_key"
has_image "$parts:deps-$deps_key" || step "Installing what vLLM requires (half a minute)" layer dependencies "$parts:torch-$torch_key" "$parts:deps-$deps_key" "$deps_key"
has_image "$parts:vllm-$vllm_key" || step "Installing vLLM" layer vllm "$parts:deps-$deps_key" "$parts:vllm-$vllm_key" "$vllm_key" \
    "ENV $environment"
[ "$(cat "$cache/models/.key" 2>/dev/null)" = "$model_key" ] || step "Making the tiny model" make_model
[ "$(label_of "$image")" = "$plain_key" ] || step "Serving the tiny model once, from the image without Ray (a minute)" warm
[ "$(label_of "$image-ray")" = "$ray_key" ] || step "Installing Ray" layer ray "$image" "$image-ray" "$ray_key" "${upstream[@]}"
step "Making the package index" "$python" "$here/wheel_index.py" "$here/layers/ray.lock" "$stage/wheels" "$cache/wheels" "$wheels_key"
prune >>"$log" 2>&1
say "The engine images, the model and the wheels are ready after $((SECONDS - started)) s:"
print
