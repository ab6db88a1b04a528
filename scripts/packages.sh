# packages.sh - which Debian packages are needed and how they are installed; sourced by run and check.
#
# Nothing here writes to standard output or reads standard input: run's belong to an MCP client.
# shellcheck shell=bash disable=SC2034 # the lists are for who sources this

# What building needs.
build_packages=(gcc libc6-dev make autoconf automake pkg-config
  ecl libevent-dev libjson-c-dev libsqlite3-dev libedit-dev)

# What the whole check needs besides. A package that stands as command:package is only needed where the command is
# missing: people have node from elsewhere.
check_packages=(libcmocka-dev clang libclang-rt-14-dev llvm clang-tidy clang-format cppcheck valgrind shellcheck mandoc
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross xz-utils
  python3 python3-pytest python3-pytest-xdist python3-jsonschema node:nodejs npm:npm
  cl-alexandria cl-ppcre cl-split-sequence cl-flexi-streams)

# packages_missing PACKAGE...: those that are not installed, in $missing.
packages_missing() {
  local wanted=() item installed
  for item; do
    case $item in
      *:*) command -v "${item%%:*}" >/dev/null || wanted+=("${item#*:}") ;;
      *) wanted+=("$item") ;;
    esac
  done
  missing=()
  # shellcheck disable=SC2016 # the dollar belongs to dpkg-query
  installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null </dev/null |
    sed -n 's/^installed //p' | tr '\n' ' ')"
  for item in "${wanted[@]}"; do
    [[ $installed == *" $item "* ]] || missing+=("$item")
  done
}

# packages_install NAME MAY_INSTALL PACKAGE...: installs what is missing, speaking as NAME; unless MAY_INSTALL is yes it only
# says what to type. Fails when something is still missing.
packages_install() {
  local name=$1 may_install=$2 sudo=()
  shift 2
  if ! command -v dpkg-query >/dev/null; then
    echo "$name: this is no Debian; if something is missing, the next steps will say so" >&2
    return 0
  fi
  packages_missing "$@"
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    # A password can only be asked for at a terminal.
    sudo=(sudo)
    [ -t 2 ] || sudo=(sudo -n)
  fi
  local command=("${sudo[@]}" apt-get install -y --no-install-recommends "${missing[@]}")
  if [ "$may_install" != yes ]; then
    printf '%s: these packages are missing: %s\n%s: to install them: %s\n' \
      "$name" "${missing[*]}" "$name" "${command[*]}" >&2
    return 1
  fi
  echo "$name: installing the packages that are missing: ${missing[*]}" >&2
  if [ ${#sudo[@]} -gt 0 ] && ! command -v sudo >/dev/null; then
    echo "$name: there is no sudo; as root: ${command[*]:1}" >&2
    return 1
  fi
  # sudo drops the environment, so the setting goes through env.
  if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2; then
    echo "$name: apt-get update failed; trying with the package lists that are there" >&2
  fi
  if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "${command[@]:${#sudo[@]}}" -qq -o Dpkg::Use-Pty=0 </dev/null >&2; then
    echo "$name: the packages could not be installed; by hand: ${command[*]}" >&2
    return 1
  fi
}
