# shellcheck shell=sh
# `npm install` in a sandbox is nobody's business but the sandbox's.
npm config set --global fund false
npm config set --global audit false
npm config set --global update-notifier false
