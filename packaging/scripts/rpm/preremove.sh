# %preun with the number of versions that stay.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
	systemctl disable --now authgate.socket authgate-http.socket authgate.service || true
fi
