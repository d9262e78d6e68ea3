package config

// checkLater refuses what the configuration can say but the gateway cannot do
// in this version.
func (l *loader) checkLater() {
	if l.cfg.TLS.Mode == TLSACME {
		l.add(l.main.text, l.main.at("tls.mode"), "tls.mode", "acme is not supported yet")
	}
}
