package wire

// Tests with a CVE or GHSA id in their names send the attacks of published
// advisories for other gateways, proxies and libraries, where the attack needs the
// real program. docs/security-advisories.md lists all advisories, and the tests of
// lower packages that prove the others. A comment says which rule of the gateway
// prevents a fault, where the name of the test does not.

// advisory is a published fault, and what an attacker sends.
type advisory struct {
	name    string // the id, the program with the fault, and the subject
	attacks []string
}
