# prerm remove. For an upgrade the gateway runs on until the new version is there.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop authgate.socket authgate-http.socket authgate.service || true
fi
