# shellcheck shell=sh
# Runs first, as root inside the new root file system, under `sh -eu`.

groupadd --gid 1000 user
useradd --uid 1000 --gid 1000 --no-create-home --home-dir /home/user --shell /bin/bash user
install --directory --owner=user --group=user /workspace
ln -s /workspace /home/user
ln -s /workspace /mnt/data
# pip and npm install into /usr/local, which is in PATH, without sudo.
chown -R user:user /usr/local

cat >/etc/sudoers.d/user <<'END'
Defaults env_keep += "LANG MPLCONFIGDIR http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY"
user ALL=(ALL:ALL) NOPASSWD: ALL
END
chmod 0440 /etc/sudoers.d/user

rm -f /etc/hostname # the host's
echo sandbox >/etc/hostname
cat >/etc/hosts <<'END'
127.0.0.1 localhost
127.0.1.1 sandbox
::1 localhost ip6-localhost ip6-loopback
END
