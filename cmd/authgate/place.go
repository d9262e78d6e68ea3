package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// The place of an application is a host, also with a path. Its match is that place as a route names it.

// readPlace returns the match of a place, which can also be the address of a page. That has the port
// of the gateway, which is at public.
func readPlace(answer string, public *url.URL) (match string, err error) {
	host := withoutScheme(answer)
	switch {
	case host == "" || host[0] == '/':
		return "", errors.New("a host is needed, such as wiki.example.org")
	case strings.ContainsAny(host, "?# "):
		return "", fmt.Errorf("%q is neither a host nor a host with a path, such as wiki.example.org or "+
			"example.org/wiki/", answer)
	}
	name, path, _ := strings.Cut(host, "/")
	if host != answer {
		name = strings.TrimSuffix(name, ":"+cmp.Or(public.Port(), "443"))
	}
	return name + "/" + path, nil
}

// placeURL returns the URL of a match for the clients of the gateway at public.
func placeURL(public *url.URL, match string) string {
	host, path, _ := strings.Cut(match, "/")
	place := url.URL{Scheme: public.Scheme, Host: host, Path: "/" + path}
	if port := public.Port(); port != "" {
		place.Host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return place.String()
}

// besideHost returns a host for an application beside that of the gateway, with its name; none beside
// an address.
func besideHost(gateway, name string) string {
	parent := "localhost"
	if !isLoopback(gateway) {
		if _, err := netip.ParseAddr(gateway); err == nil {
			return ""
		}
		suffix, registry := publicsuffix.PublicSuffix(gateway)
		_, after, ok := strings.Cut(gateway, ".")
		if parent = after; !ok || parent == suffix && (registry || strings.Contains(suffix, ".")) {
			parent = gateway // names beside it are not the operator's
		}
	}
	name = hostLabel(name)
	if host := name + "." + parent; !strings.EqualFold(host, gateway) {
		return host
	}
	return name + "." + gateway
}

// hostLabel returns the name of an application as a host or a path can have it.
func hostLabel(name string) string {
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return cmp.Or(strings.Trim(text, "-"), defaultApp)
}

// withoutScheme returns an address without https:// or http://.
func withoutScheme(address string) string {
	for _, scheme := range []string{"https://", "http://"} {
		if len(address) >= len(scheme) && strings.EqualFold(address[:len(scheme)], scheme) {
			return address[len(scheme):]
		}
	}
	return address
}

// isLoopback reports whether a host is this machine in each of its browsers.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() ||
		strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// isPublic reports whether a public authority may have a certificate for a host.
func isPublic(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return false
	}
	for _, private := range []string{".localhost", ".local", ".lan", ".home", ".internal", ".test", ".home.arpa"} {
		if strings.HasSuffix(strings.ToLower(host), private) {
			return false
		}
	}
	return true
}
