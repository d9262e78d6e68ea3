# %preun with the number of versions that stay.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
	systemctl disable --now authgate.service || true
fi
