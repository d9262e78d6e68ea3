package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"sync"
)

// credentialKey is a keyed hash of a kind, a user name, a password, and the stored
// hash that the password is checked against.
type credentialKey [aes.BlockSize]byte

// credentialMACs computes credentialKeys without allocating: AES-CMAC (NIST SP 800-38B, RFC 4493), with a secret key of
// 256 bits that no other process has. Without the key, two inputs have the same credentialKey only by a chance of 1 to
// 2^128 for each try, and a try costs a request. HMAC-SHA-256 would be as safe, but its frames are deep, by 1 KiB on
// processors without instructions for SHA. HTTP/2 has a goroutine for each request, and Go copies its stack when it
// becomes too deep, which was an eighth of a request. hash/maphash is no MAC, and has 64 bits.
type credentialMACs struct {
	block   cipher.Block
	whole   [aes.BlockSize]byte // is added to a last block that is full, K1
	partial [aes.BlockSize]byte // and to one that is not, K2
	buffers *sync.Pool          // of *credentialBuffer
}

// credentialBuffer is memory for one input. A longer one allocates.
type credentialBuffer struct {
	state credentialKey
	input [512]byte
}

func newCredentialMACs() credentialMACs {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand
	return credentialMACsOf(secret)
}

// credentialMACsOf returns those of a key with a length of AES.
func credentialMACsOf(secret []byte) credentialMACs {
	block, _ := aes.NewCipher(secret) // fails for other lengths alone
	m := credentialMACs{block: block, buffers: &sync.Pool{New: func() any { return &credentialBuffer{} }}}
	block.Encrypt(m.whole[:], m.whole[:])
	m.whole = double(m.whole)
	m.partial = double(m.whole)
	return m
}

// double multiplies by x in the field of CMAC.
func double(b [aes.BlockSize]byte) (doubled [aes.BlockSize]byte) {
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(doubled[:8], high<<1|low>>63)
	binary.BigEndian.PutUint64(doubled[8:], low<<1^high>>63*0x87)
	return doubled
}

// key returns the credentialKey of a credential.
func (m *credentialMACs) key(kind, username, password, stored string) credentialKey {
	b := m.buffers.Get().(*credentialBuffer)
	input := b.input[:0]
	for _, field := range [...]string{kind, username, password, stored} {
		input = binary.BigEndian.AppendUint64(input, uint64(len(field)))
		input = append(input, field...)
	}
	m.sum(&b.state, input)
	key := b.state
	clear(b.input[:]) // the password
	m.buffers.Put(b)
	return key
}

// sum makes state the CMAC of a message.
func (m *credentialMACs) sum(state *credentialKey, message []byte) {
	clear(state[:])
	for ; len(message) > len(state); message = message[len(state):] {
		subtle.XORBytes(state[:], state[:], message)
		m.block.Encrypt(state[:], state[:])
	}
	subtle.XORBytes(state[:], state[:], message)
	last := &m.whole
	if len(message) < len(state) {
		state[len(message)] ^= 0x80
		last = &m.partial
	}
	subtle.XORBytes(state[:], state[:], last[:])
	m.block.Encrypt(state[:], state[:])
}
