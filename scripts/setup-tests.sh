#!/usr/bin/env bash
# Installs what the tests need beyond Go: real services, a browser, the jars of
# services written in Java, and the browser tests' packages. Safe to run again; it
# says nothing when all is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Servers live in sbin, which is not on everybody's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# One line per Debian package: its name, and commands of which one proves that
# what it brings is there, however it was installed.
needs=(
  "nginx-light nginx"
  "wrk wrk"
  "redis-server redis-server"
  "mariadb-server mariadbd mysqld"
  "rabbitmq-server /usr/lib/rabbitmq/bin/rabbitmq-server"
  "build-essential gcc clang cc"
  "openjdk-17-jre-headless java"
)
# The browser without its windows takes half the processor time; not each distribution has it.
quick_browser="chromium-headless-shell chromium-headless-shell"
any_browser="chromium chromium chromium-browser google-chrome google-chrome-stable"
node_needs=(
  "nodejs node"
  "npm npm"
)
node_major_min=20
java_servers=internal/testenv/jars
java_major_min=17
jars=${SECKILL_TEST_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/seckill-tests}
browser_tests=web/test
policy=/usr/sbin/policy-rc.d
policy_is_ours=no
attempts=3

say() { printf 'setup-tests: %s\n' "$*"; }
die() {
  say "$*" >&2
  exit 1
}

any_command() {
  local command
  for command in "$@"; do
    if command -v "$command" >/dev/null 2>&1; then return 0; fi
  done
  return 1
}

has_cjk_fonts() {
  any_command fc-list && [[ -n "$(fc-list :lang=zh 2>/dev/null)" ]]
}

# Prints the packages that are missing, one a line.
missing_packages() {
  local need words
  for need in "$@"; do
    read -ra words <<<"$need"
    any_command "${words[@]:1}" || echo "${words[0]}"
  done
  has_cjk_fonts || echo fonts-noto-cjk
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    env "$@"
  else
    sudo env "$@"
  fi
}

# The network may fail for a moment; a wrong package name fails each time.
retry() {
  local try
  for ((try = 1; try <= attempts; try++)); do
    if "$@"; then return 0; fi
    if ((try < attempts)); then
      say "attempt $try of $attempts failed, once more in $((try * 5)) s: $*"
      sleep $((try * 5))
    fi
  done
  die "failed $attempts times: $*"
}

# The tests start servers of their own on free ports. A package that starts one
# on the standard port would stay behind, so this policy forbids it meanwhile.
forbid_services() {
  if [[ -e $policy ]]; then return 0; fi
  policy_is_ours=yes
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
}

allow_services() {
  if [[ $policy_is_ours == yes ]]; then
    as_root rm -f "$policy"
    policy_is_ours=no
  fi
}

apt() {
  as_root DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@"
}

# Both go together: a package that cannot be fetched is often one that a fresh
# list names otherwise. A source that fails to update need not be one of ours.
update_and_install() {
  apt update || say "some package lists could not be fetched; going on"
  apt install -y --no-install-recommends "$@"
}

may_install() {
  any_command apt-get && any_command dpkg && { [[ $(id -u) -eq 0 ]] || any_command sudo; }
}

known_package() {
  apt-cache show "$1" >/dev/null 2>&1
}

# Prints what the browser tests need.
browser_need() {
  local package=${quick_browser%% *}
  if any_command "$package"; then return 0; fi
  # Who would have to ask for rights first keeps the browser that he has.
  local words
  read -ra words <<<"$any_browser"
  if [[ $(id -u) -ne 0 ]] && any_command "${words[@]:1}"; then return 0; fi
  if may_install && { known_package "$package" || { apt update >&2 && known_package "$package"; }; }; then
    echo "$quick_browser"
  else
    echo "$any_browser"
  fi
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return 0; fi

  if ! any_command apt-get || ! any_command dpkg; then
    die "the tests need what these Debian packages bring, by this system's own means: ${missing[*]}"
  fi
  if [[ $(id -u) -ne 0 ]] && ! any_command sudo; then
    die "the tests need these packages, and only root may install them: ${missing[*]}"
  fi

  say "installing Debian packages: ${missing[*]}"
  trap allow_services EXIT
  forbid_services
  retry update_and_install "${missing[@]}"
  allow_services

  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} > 0)); then
    die "installed, but still not found: ${missing[*]}"
  fi
}

# npm leaves a copy of the lock file behind, which is older than the lock file
# when that has changed since.
install_npm() {
  local folder=$1
  if [[ ! -d $folder ]]; then return 0; fi
  local lock=$folder/package-lock.json
  local installed=$folder/node_modules/.package-lock.json
  if [[ -e $installed && ! $lock -nt $installed ]]; then return 0; fi
  if (($(node -p 'parseInt(process.versions.node)') < node_major_min)); then
    die "the browser tests need Node $node_major_min or later; this is $(node --version)"
  fi
  say "installing npm packages in $folder"
  # The browser is the system's; nothing else is to be downloaded.
  export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
  (cd "$folder" && retry npm ci --no-audit --no-fund)
}

# Where the jars of a pom.xml are; internal/testenv/jars.go looks for them there.
jars_of() {
  local hash
  hash=$(sha256sum <"$1")
  echo "$jars/$(basename "$(dirname "$1")")-${hash:0:12}/lib"
}

# Prints each pom.xml whose jars are missing, one a line.
missing_jars() {
  local pom
  for pom in "$java_servers"/*/pom.xml; do
    if [[ -e $pom && ! -d $(jars_of "$pom") ]]; then echo "$pom"; fi
  done
}

# A folder that is there is complete: it gets its name only when Maven is done. Two runs
# at once do the work twice, and the second keeps what the first has brought.
fetch_jars() {
  local pom=$1 lib temp
  lib=$(jars_of "$pom")
  mkdir -p "$(dirname "$lib")"
  temp=$(mktemp -d "$lib.XXXXXX")
  say "fetching the jars of $pom"
  retry mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$temp"
  chmod 755 "$temp"
  mv -T "$temp" "$lib" 2>/dev/null || rm -rf "$temp"
}

install_jars() {
  local missing pom major
  major=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/.*java\.specification\.version = //p')
  if ((${major%%.*} < java_major_min)); then
    die "the brokers of the tests need Java $java_major_min or later; this is $major"
  fi
  mapfile -t missing < <(missing_jars)
  if ((${#missing[@]} == 0)); then return 0; fi
  if [[ $jars != /* ]]; then die "SECKILL_TEST_JARS has to be an absolute path; this is $jars"; fi
  # Maven is needed for nothing else.
  install_packages "maven mvn"
  for pom in "${missing[@]}"; do fetch_jars "$pom"; done
}

if [[ -d $browser_tests ]]; then
  needs+=("${node_needs[@]}")
  mapfile -t -O "${#needs[@]}" needs < <(browser_need)
fi
install_packages "${needs[@]}"
install_jars
install_npm web/console
install_npm "$browser_tests"
