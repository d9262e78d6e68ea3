package main

import (
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"

	"authgate/gateway/config/listening"
)

// packagedConfig is the configuration of the service that the packages have.
const packagedConfig = "/etc/authgate/config.yaml"

// The lines of proxies, as docs/how-to/behind-a-proxy.md shows them.
var (
	//go:embed init.nginx.tmpl
	nginxLines string
	//go:embed init.caddy.tmpl
	caddyLines string
	//go:embed init.traefik.tmpl
	traefikLines string
	//go:embed init.haproxy.tmpl
	haproxyLines string
)

// proxyLines returns the lines for the configuration of the proxy in front, and where they go.
func (s *firstSteps) proxyLines() (place string, lines []byte, err error) {
	text := ""
	switch s.Front {
	case "nginx":
		place, text = "a file in /etc/nginx/conf.d, with the paths of your certificate", nginxLines
	case "caddy":
		place, text = "/etc/caddy/Caddyfile", caddyLines
	case "traefik":
		place, text = "a file of the file provider; websecure is the entry point of port "+s.FrontPort(), traefikLines
	case "haproxy":
		place, text = "/etc/haproxy/haproxy.cfg, with the path of your certificate and its key", haproxyLines
	}
	lines, err = s.render(text)
	return place, lines, err
}

// tell prints the files at path and beside it, and the next steps.
func (s *firstSteps) tell(out io.Writer, path string) error {
	fmt.Fprintf(out, "%s is written, and %s with the account of %s.\n\nNext:\n\n", path, accountsBeside(path), s.User)
	step := 0
	next := func(format string, args ...any) {
		step++
		fmt.Fprintf(out, "  %d. "+format+"\n", append([]any{step}, args...)...)
	}
	if ports := s.privileged(); ports != "" {
		next("Let the program listen at %s. The systemd unit of the .deb and of docs/deploy does.\n"+
			"     Without it, as root, and again after each upgrade:\n"+
			"       setcap cap_net_bind_service=+ep %s", ports, program())
	}
	config := ""
	if path != defaultConfig {
		config = " --config " + path
	}
	run := "authgate serve" + config
	if path == packagedConfig {
		run = "systemctl enable --now authgate"
	}
	next("Run the gateway:\n       %s", run)
	switch {
	case s.Proxied():
		next("Put the lines below into the configuration of %s, in the place of what it has for\n"+
			"     %s, and reload it.", s.Front, listed(s.Names(), "and"))
	case s.Certificates == listening.TLSInternal:
		next("Let browsers and other clients trust the file that the first start writes:\n       %s",
			s.authority(path))
	default:
		next("Let ports 80 and 443 through the firewall.")
	}
	if _, err := netip.ParseAddr(s.Name()); err != nil && !isLoopback(s.Name()) {
		next("Let %s lead here in the DNS.", listed(s.Names(), "and"))
	}
	if s.Issuer != "" {
		next("Register the redirect URI at %s:\n       %s", s.Issuer, s.RedirectURI())
	}
	if s.Match == "" {
		next("Open %s and sign in as %s: it is %s. The start page is at\n     %s.",
			s.AppURL(), s.User, s.App, s.StartPage())
	} else {
		next("Open %s and sign in as %s. It is the start page, which leads to %s at\n     %s.",
			s.StartPage(), s.User, s.App, s.AppURL())
	}
	next("Invite others. The second command prints a link, which leads them to the start page:\n"+
		"       authgate users add NAME%[2]s\n"+
		"       authgate users invite NAME%[2]s", config)
	who := ""
	if len(s.Users()) > 0 {
		who = " --policy invited" // of init.yaml.tmpl
	}
	next("Add a second application:\n       authgate add%s%s", config, who)
	if !s.Proxied() {
		return nil
	}
	place, lines, err := s.proxyLines()
	fmt.Fprintf(out, "\nIf %[1]s is in a container or on another machine, change listen.http to an address that it\n"+
		"reaches, and list its own address in listen.trusted_proxies.\n\nFor %[1]s, in %[2]s:\n\n%[3]s",
		s.Front, place, lines)
	return err
}

// privileged returns the ports below 1024 at which the gateway listens, for people.
func (s *firstSteps) privileged() string {
	var all []string
	for _, address := range []string{s.HTTP(), s.HTTPS()} {
		_, port, _ := net.SplitHostPort(address)
		if number, err := strconv.Atoi(port); err == nil && number < 1024 && !s.Proxied() {
			all = append(all, port)
		}
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return "port " + all[0]
	}
	return "ports " + all[0] + " and " + all[1]
}

// program returns the path of this program.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return "/usr/bin/authgate"
	}
	return path
}
