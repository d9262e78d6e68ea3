package certs

import (
	"log/slog"

	"authgate/gateway/acme/dnschallenge"
	"authgate/gateway/config"
)

// dnsProvider returns what changes the zones of the gateway's names, or nil if there is no
// tls.dns.
func dnsProvider(d *config.DNS, logger *slog.Logger) dnschallenge.Provider {
	if d == nil {
		return nil
	}
	var provider dnschallenge.Provider
	resolvers := dnschallenge.NewResolvers(d.Resolvers)
	switch d.Provider {
	case config.DNSRFC2136:
		provider = dnschallenge.RFC2136{
			Server: d.Server, KeyName: d.KeyName, Key: d.Key.Reveal(), Algorithm: d.KeyAlgorithm, Resolvers: resolvers,
		}
	case config.DNSCloudflare:
		provider = dnschallenge.Cloudflare{
			API: dnschallenge.CloudflareAPI, Token: d.APIToken.Reveal(), Resolvers: resolvers,
		}
	case config.DNSRoute53:
		provider = dnschallenge.Route53(d.AccessKeyID, d.SecretAccessKey.Reveal(), d.Region, d.HostedZoneID)
	case config.DNSACMEDNS:
		provider = dnschallenge.ACMEDNS(d.URL, d.Storage)
	case config.DNSHTTPReq:
		provider = dnschallenge.HTTPReq(d.URL, d.Username, d.Password.Reveal())
	case config.DNSExec:
		provider = dnschallenge.Exec{Command: d.Command}
	default:
		return nil
	}
	dnschallenge.UseLego(d.Resolvers, logger)
	return dnschallenge.Redacted(provider, d.Secrets())
}
