package main

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"authgate/gateway/config/listening"
)

// packagedConfig is the configuration of the service that the packages have.
const packagedConfig = "/etc/authgate/config.yaml"

// nextSteps are the steps that follow the configuration at path, which print numbers as it prints them.
type nextSteps struct {
	*firstSteps
	path  string
	out   io.Writer
	count int
}

// tell prints the files at path and beside it, and the next steps.
func (s *firstSteps) tell(out io.Writer, path string) error {
	fmt.Fprintf(out, "%s is written, and %s with the account of %s.\n\nNext:\n\n", path, accountsBeside(path), s.User)
	next := nextSteps{firstSteps: s, path: path, out: out}
	next.printStart()
	next.printReach()
	next.printUse()
	if !s.Proxied() {
		return nil
	}
	place, lines, err := s.proxyLines()
	fmt.Fprintf(out, "\nIf %[1]s is in a container or on another machine, change listen.http to an address that it\n"+
		"reaches, and list its own address in listen.trusted_proxies.\n\nFor %[1]s, in %[2]s:\n\n%[3]s",
		s.Front, place, lines)
	return err
}

// printStep prints one step.
func (n *nextSteps) printStep(format string, args ...any) {
	n.count++
	fmt.Fprintf(n.out, "  %d. %s\n", n.count, fmt.Sprintf(format, args...))
}

// configFlag returns the flag for commands that read the configuration, empty where they find it without.
func (n *nextSteps) configFlag() string {
	if n.path == defaultConfig {
		return ""
	}
	return " --config " + shellWord(n.path)
}

// printStart prints how to run the gateway.
func (n *nextSteps) printStart() {
	if ports := n.privileged(); len(ports) > 0 {
		word := "port "
		if len(ports) > 1 {
			word = "ports "
		}
		n.printStep("Let the program listen at %s. The systemd unit of the .deb and of docs/deploy does.\n"+
			"     Without it, as root, and again after each upgrade:\n"+
			"       setcap cap_net_bind_service=+ep %s", word+listed(ports, "and"), program())
	}
	run := "authgate serve" + n.configFlag()
	if n.path == packagedConfig {
		run = "systemctl enable --now authgate"
	}
	n.printStep("Run the gateway:\n       %s", run)
}

// printReach prints how clients and a provider reach the gateway.
func (n *nextSteps) printReach() {
	switch {
	case n.Proxied():
		n.printStep("Put the lines below into the configuration of %s, in the place of what it has for\n"+
			"     %s, and reload it.", n.Front, listed(n.Names(), "and"))
	case n.Certificates == listening.TLSInternal:
		n.printStep("Let browsers and other clients trust the file that the first start writes:\n       %s",
			n.authority(n.path))
	default:
		n.printStep("Let ports 80 and %s through the firewall.", n.Port())
	}
	if _, err := netip.ParseAddr(n.host()); err != nil && !isLoopback(n.host()) {
		n.printStep("Let %s lead here in the DNS.", listed(n.Names(), "and"))
	}
	if n.Issuer != "" {
		n.printStep("Register the redirect URI at %s:\n       %s", n.Issuer, n.RedirectURI())
	}
}

// printUse prints how users come to applications.
func (n *nextSteps) printUse() {
	if n.Match == "" {
		n.printStep("Open %s and sign in as %s: it is %s. The start page is at\n     %s.",
			n.AppURL(), n.User, n.App, n.StartPage())
	} else {
		n.printStep("Open %s and sign in as %s. It is the start page, which leads to %s at\n     %s.",
			n.StartPage(), n.User, n.App, n.AppURL())
	}
	n.printStep("Invite others. The second command prints a link, which leads them to the start page:\n"+
		"       authgate users add NAME%[1]s\n"+
		"       authgate users invite NAME%[1]s", n.configFlag())
	who := ""
	if len(n.Users()) > 0 {
		who = " --policy invited" // of init.yaml.tmpl
	}
	n.printStep("Add a second application:\n       authgate add%s%s", n.configFlag(), who)
}

// proxyLines returns the lines for the configuration of the proxy in front, and where they go.
func (s *firstSteps) proxyLines() (place string, lines []byte, err error) {
	text := ""
	switch s.Front {
	case "nginx":
		place, text = "a file in /etc/nginx/conf.d, with the paths of your certificate", nginxLines
	case "caddy":
		place, text = "/etc/caddy/Caddyfile", caddyLines
	case "traefik":
		place, text = "a file of the file provider; websecure is the entry point of port "+s.Port(), traefikLines
	case "haproxy":
		place, text = "/etc/haproxy/haproxy.cfg, with the path of your certificate and its key", haproxyLines
	}
	lines, err = fill(text, s)
	return place, lines, err
}

// shellWord returns a text as one word of a shell.
func shellWord(text string) string {
	if strings.ContainsAny(text, " \t\"'\\$`&;|<>()*?#~!{}") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// program returns the path of this program.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return "/usr/bin/authgate"
	}
	return path
}

// listed returns words as a list for people, with a conjunction before the last one.
func listed(words []string, conjunction string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
