#!/bin/sh
# Runs once, inside the fresh root file system: turns a plain Debian/Ubuntu into the base of a node.
# What belongs to one node (host keys, netplan, profile) comes later, when the node is made.
set -eu

user=aurora

if ! id "$user" >/dev/null 2>&1; then
    # Ubuntu images bring a user of their own with uid 1000.
    other="$(getent passwd 1000 | cut -d: -f1 || true)"
    [ -n "$other" ] && userdel -r "$other" 2>/dev/null || true
    useradd --uid 1000 --user-group --create-home --shell /bin/bash "$user"
fi
usermod -aG sudo,docker "$user"
printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$user" >"/etc/sudoers.d/90-$user"
chmod 0440 "/etc/sudoers.d/90-$user"
install -d -m 0700 -o "$user" -g "$user" "/home/$user/.ssh"

rm -f /etc/ssh/ssh_host_*
# A DGX Spark takes keys and passwords; the lab's user has no password at all.
printf 'PermitRootLogin no\nUseDNS no\n' >/etc/ssh/sshd_config.d/50-spark.conf

# Units that either cannot work in a container or would change the machine by themselves behind a test's back.
for unit in getty@tty1.service console-getty.service systemd-networkd-wait-online.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer motd-news.timer man-db.timer logrotate.timer \
    systemd-tmpfiles-clean.timer NetworkManager-wait-online.service unattended-upgrades.service rsync.service ubuntu-fan.service; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
done
# The devices of the host are none of the node's business, only the network devices of its own namespace.
mkdir -p /etc/systemd/system/systemd-udev-trigger.service.d
printf '[Service]\nExecStart=\nExecStart=-udevadm trigger --action=add --subsystem-match=net\n' \
    >/etc/systemd/system/systemd-udev-trigger.service.d/network-only.conf
systemctl set-default multi-user.target >/dev/null 2>&1
systemctl enable ssh.service docker.service >/dev/null 2>&1 || true
# There, as on DGX OS; the rails of the lab are networkd's unless a test starts it.
systemctl disable NetworkManager.service wpa_supplicant.service >/dev/null 2>&1 || true
# NetworkManager asks for it; sessions of their own for every command would only cost time here.
sed -i '/pam_systemd/d' /etc/pam.d/common-session
# Ubuntu starts sshd by socket; a node answers the same way on both.
systemctl disable ssh.socket >/dev/null 2>&1 || true

# What docker packs and unpacks on its way would go over the disk twice.
mkdir -p /etc/systemd/system/docker.service.d
printf '[Service]\nRuntimeDirectory=docker-tmp\nEnvironment=DOCKER_TMPDIR=/run/docker-tmp\n' >/etc/systemd/system/docker.service.d/tmp.conf
mkdir -p /etc/docker /etc/netplan
printf 'LANG=C.UTF-8\n' >/etc/default/locale
# Ubuntu gives every session the administrators' folders; Debian does not.
printf 'PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"\n' >/etc/environment
# Docker hands out a hook only if it finds this program; the real one comes with the NVIDIA container toolkit.
printf '#!/bin/sh\nexit 0\n' >/usr/bin/nvidia-container-runtime-hook
chmod 0755 /usr/bin/nvidia-container-runtime-hook

# Programs that the emulator stands in for: the real ones stay beside it, for everything it does not answer itself.
real=/usr/lib/spark-emulator/real
mkdir -p "$real"
for tool in /usr/sbin/ethtool /usr/bin/lspci /usr/bin/rdma /usr/sbin/dmidecode; do
    if [ -e "$tool" ] && [ ! -L "$tool" ]; then mv "$tool" "$real/"; else rm -f "$tool"; fi
done
rm -f /sbin/rdma
: >/etc/machine-id
apt-get clean >/dev/null 2>&1 || true
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/*.log /usr/share/doc /usr/share/man /usr/share/locale
