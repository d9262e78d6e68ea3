package dnschallenge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
)

// RFC2136 changes a zone by dynamic updates (RFC 2136), which a TSIG key (RFC 8945) signs.
type RFC2136 struct {
	Server    string // HOST:PORT
	KeyName   string
	Key       string // in base64
	Algorithm string // such as hmac-sha256
	Resolvers *resolvers
}

// tsigFudge is by how many seconds the clocks of both sides may differ.
const tsigFudge = 300

// Add implements Provider.
func (p RFC2136) Add(ctx context.Context, record Record) error {
	err := p.update(ctx, record, (*dns.Msg).Insert)
	if r, refused := errors.AsType[*refusal](err); refused && r.answer.Rcode != dns.RcodeServerFailure {
		return fmt.Errorf("%w: %w", errNotAdded, err)
	}
	return err
}

// Remove implements Provider.
func (p RFC2136) Remove(ctx context.Context, record Record) error {
	return p.update(ctx, record, (*dns.Msg).Remove)
}

// update changes one record, whatever else the name has (RFC 2136, sections 2.5.1 and 2.5.4).
func (p RFC2136) update(ctx context.Context, record Record, change func(*dns.Msg, []dns.RR)) error {
	zone, err := p.Resolvers.Zone(ctx, record.Name)
	if err != nil {
		return err
	}
	message := new(dns.Msg).SetUpdate(zone)
	change(message, []dns.RR{&dns.TXT{
		Hdr: dns.RR_Header{Name: record.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: ttl},
		Txt: []string{record.Value},
	}})
	key := dns.CanonicalName(p.KeyName)
	message.SetTsig(key, dns.Fqdn(p.Algorithm), tsigFudge, time.Now().Unix())
	answer, err := exchange(ctx, &dns.Client{TsigSecret: map[string]string{key: p.Key}}, message, p.Server)
	if answer != nil && answer.Rcode != dns.RcodeSuccess {
		return &refusal{p.Server, zone, answer}
	}
	if err != nil {
		return fmt.Errorf("the DNS server %s does not take the update of %s: %w", p.Server, zone, err)
	}
	return nil
}

// refusal is the answer of a server that has not made the change. Unless it has failed, it changed
// nothing.
type refusal struct {
	server, zone string
	answer       *dns.Msg
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("the DNS server %s refuses the update of %s: %s", r.server, r.zone,
		dns.RcodeToString[r.answer.Rcode])
	signed := r.answer.IsTsig()
	if signed == nil || signed.Error == dns.RcodeSuccess {
		return text
	}
	reason := dns.RcodeToString[int(signed.Error)]
	switch signed.Error {
	case dns.RcodeBadSig:
		reason = "BADSIG, tls.dns.key is wrong"
	case dns.RcodeBadKey:
		reason = "BADKEY, it does not know tls.dns.key_name with this tls.dns.key_algorithm"
	case dns.RcodeBadTime:
		reason = "BADTIME, its clock differs"
	}
	return text + " (" + reason + ")"
}
