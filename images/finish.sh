# shellcheck shell=sh
# Runs last. Nothing that differs from one build to the next stays, where that is cheap: the same
# packages give the same image. /tmp must stay as it is: the builder keeps its apt configuration there.
# What is in it does not get into the image.

find /var/log -type f -exec truncate --size=0 {} +
rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /root/.cache /root/.npm
rm -rf /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/lib/apt/lists/*
rm -f /etc/resolv.conf /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
: >/etc/machine-id
: >/etc/resolv.conf
sed -i '/Sandbox/d' /etc/apt/apt.conf.d/99mmdebstrap
# The day of each password's last change.
sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1:19518:/' /etc/shadow
