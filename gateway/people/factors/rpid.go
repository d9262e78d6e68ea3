package factors

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"golang.org/x/net/publicsuffix"
)

// CheckRPID returns why id cannot be the RP ID of passkeys that are used at host, which has
// no port. An RP ID is the host itself, or a parent domain that is no public suffix: a
// passkey for co.uk would be one for all sites below it (WebAuthn Level 3, section 5.1.2).
// The error is a phrase that follows the name of the RP ID.
func CheckRPID(id, host string) error {
	if isAddress(host) {
		return fmt.Errorf("cannot be used: passkeys need a host name, and the host is the address %s", host)
	}
	if id != strings.ToLower(id) {
		return fmt.Errorf("%q must be written in lower case", id)
	}
	if id != host && !strings.HasSuffix(host, "."+id) {
		return fmt.Errorf("%q is neither the host %s nor a parent domain of it", id, host)
	}
	// The library knows no names of one label but localhost. The host itself may be one.
	if err := protocol.ValidateRPID(id); err != nil && (id != host || protocol.ValidateRPID(id+".test") != nil) {
		return fmt.Errorf("%q is no domain: %w", id, err)
	}
	if suffix, _ := publicsuffix.PublicSuffix(id); id != host && suffix == id {
		return fmt.Errorf("%q is a public suffix, which many sites share; name a domain of your own", id)
	}
	return nil
}

// isAddress reports whether a host is an IP address, with or without brackets.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// RelyingParty is the site that passkeys are for. It is safe for concurrent use.
type RelyingParty struct {
	id, name, origin string
}

// NewRelyingParty returns the relying party with an RP ID. name is the title of the site,
// and may be empty. origin is the only one where passkeys work, as browsers write it:
// https://auth.example.org, or with a port other than 443.
func NewRelyingParty(id, name, origin string) (*RelyingParty, error) {
	host, err := originHost(origin)
	if err != nil {
		return nil, err
	}
	if err := CheckRPID(id, host); err != nil {
		return nil, fmt.Errorf("the RP ID %w", err)
	}
	if name == "" {
		name = id
	}
	return &RelyingParty{id: id, name: name, origin: origin}, nil
}

// originHost returns the host of an origin, without its port.
func originHost(origin string) (string, error) {
	host, ok := strings.CutPrefix(origin, "https://")
	if !ok || host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, "/?#@") {
		return "", errors.New("the origin of passkeys must be https://HOST or https://HOST:PORT, in lower case")
	}
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		if host[at+1:] == "443" {
			return "", errors.New("the origin of passkeys must not have the port 443, which browsers leave out")
		}
		host = host[:at]
	}
	return host, nil
}
