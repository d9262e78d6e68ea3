package dnschallenge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/miekg/dns"
	"go.uber.org/zap"
)

const (
	// queryTime bounds one question over UDP, and again over TCP.
	queryTime = 5 * time.Second
	// maxAliases is how many CNAME records lead from one name to another.
	maxAliases = 10
	// bufferSize is how large an answer over UDP may be: one that no network cuts up.
	bufferSize = 1232
)

// resolvers are the servers that are asked for zones, aliases and records.
type resolvers struct {
	servers []string // HOST:PORT
	own     bool     // they are configured, and not the system's
}

// NewResolvers returns the servers at some addresses, HOST:PORT, or the system's if there are
// none.
func NewResolvers(addresses []string) *resolvers {
	return &resolvers{certmagic.RecursiveNameservers(addresses), len(addresses) > 0}
}

// Zone returns the zone of a name, with a dot at the end.
func (r *resolvers) Zone(ctx context.Context, name string) (string, error) {
	zone, err := certmagic.FindZoneByFQDN(ctx, zap.NewNop(), name, r.servers)
	if err != nil {
		return "", fmt.Errorf("the zone of %s is not known at %s: %w", name, strings.Join(r.servers, ", "), err)
	}
	return zone, nil
}

// Follow returns the name that has the record of a name: the end of its CNAME records.
// This is how a zone delegates challenges to another one.
func (r *resolvers) Follow(ctx context.Context, name string) (string, error) {
	for range maxAliases {
		answer, err := r.ask(ctx, name, dns.TypeCNAME, r.servers)
		if err != nil {
			return "", fmt.Errorf("asking for a CNAME record of %s: %w", name, err)
		}
		target := ""
		for _, record := range answer.Answer {
			if alias, ok := record.(*dns.CNAME); ok && strings.EqualFold(alias.Hdr.Name, name) {
				target = alias.Target
			}
		}
		if target == "" {
			return name, nil
		}
		name = target
	}
	return "", fmt.Errorf("more than %d CNAME records lead from one name to another, at last to %s", maxAliases, name)
}

// Visible returns nil if those who answer for a name have its record: the configured servers,
// or the name servers of its zone. A name server that does not answer is ignored.
func (r *resolvers) Visible(ctx context.Context, record Record) error {
	servers := r.servers
	if !r.own {
		var err error
		if servers, err = r.nameServers(ctx, record.Name); err != nil {
			return err
		}
	}
	results := make([]error, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { results[i] = r.has(ctx, server, record) })
	}
	all.Wait()
	seen := false
	for _, err := range results {
		if errors.Is(err, errNotVisible) {
			return err
		}
		seen = seen || err == nil
	}
	if !seen {
		return errors.Join(results...)
	}
	return nil
}

var errNotVisible = errors.New("does not show the record")

// has returns nil if a server shows a record.
func (r *resolvers) has(ctx context.Context, server string, record Record) error {
	answer, err := r.ask(ctx, record.Name, dns.TypeTXT, []string{server})
	if err != nil {
		return err
	}
	for _, found := range answer.Answer {
		if text, ok := found.(*dns.TXT); ok && strings.Join(text.Txt, "") == record.Value {
			return nil
		}
	}
	return fmt.Errorf("%s %w", server, errNotVisible)
}

// nameServers returns the addresses of the servers of a name's zone.
func (r *resolvers) nameServers(ctx context.Context, name string) ([]string, error) {
	zone, err := r.Zone(ctx, name)
	if err != nil {
		return nil, err
	}
	answer, err := r.ask(ctx, zone, dns.TypeNS, r.servers)
	if err != nil {
		return nil, fmt.Errorf("asking for the name servers of %s: %w", zone, err)
	}
	var servers []string
	for _, record := range answer.Answer {
		if server, ok := record.(*dns.NS); ok {
			servers = append(servers, net.JoinHostPort(strings.TrimSuffix(server.Ns, "."), "53"))
		}
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s has no name servers", zone)
	}
	return servers, nil
}

// ask asks servers in turn, until one answers. That there is no such name is an answer.
func (r *resolvers) ask(ctx context.Context, name string, kind uint16, servers []string) (*dns.Msg, error) {
	question := new(dns.Msg).SetQuestion(name, kind).SetEdns0(bufferSize, false)
	var problems []error
	for _, server := range servers {
		answer, err := exchange(ctx, &dns.Client{}, question, server)
		switch {
		case err != nil:
			problems = append(problems, err)
		case answer.Rcode == dns.RcodeSuccess || answer.Rcode == dns.RcodeNameError:
			return answer, nil
		default:
			problems = append(problems, fmt.Errorf("%s answers %s", server, dns.RcodeToString[answer.Rcode]))
		}
	}
	return nil, errors.Join(problems...)
}

// exchange sends a message over UDP, and over TCP if that does not suffice. It returns the
// answer also with some errors.
func exchange(ctx context.Context, client *dns.Client, message *dns.Msg, server string) (*dns.Msg, error) {
	client.Timeout = queryTime
	answer, _, err := client.ExchangeContext(ctx, message.Copy(), server) // which takes the signature away
	if err == nil && !answer.Truncated || answer != nil && answer.Rcode != dns.RcodeSuccess || ctx.Err() != nil {
		return answer, err
	}
	over := *client
	over.Net = "tcp"
	if second, _, errTCP := over.ExchangeContext(ctx, message.Copy(), server); errTCP == nil || err == nil {
		return second, errTCP
	}
	return answer, err
}
