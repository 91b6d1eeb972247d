package penstock

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

const (
	scramMechanism = "SCRAM-SHA-256"
	iterationsMin  = 4096
	iterationsMax  = 1 << 20 // a false server shall not keep this client busy
)

// scram is the client's half of one log-in by SCRAM-SHA-256 (RFC 5802, RFC 7677): the password never leaves it, and the
// server proves that it knows the user as well. Names and passwords are taken as they are (no SASLprep).
type scram struct {
	username, password, nonce string
	signature                 []byte // the server's, which its last message must have
}

func newScram(username, password string) *scram {
	random := make([]byte, 24)
	rand.Read(random)
	return &scram{username: username, password: password, nonce: base64.StdEncoding.EncodeToString(random)}
}

func (s *scram) firstBare() string {
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.username)
	return "n=" + name + ",r=" + s.nonce
}

// first is the client's first message; there is no channel binding.
func (s *scram) first() []byte { return []byte("n,," + s.firstBare()) }

// final answers the server's first message.
func (s *scram) final(serverFirst []byte) ([]byte, error) {
	parts := scramParts(serverFirst)
	nonce := parts["r"]
	salt, err := base64.StdEncoding.DecodeString(parts["s"])
	iterations, bad := strconv.Atoi(parts["i"])
	if err != nil || bad != nil || len(salt) == 0 || iterations < iterationsMin || iterations > iterationsMax {
		return nil, errors.New("the server's first message of SCRAM is no good")
	}
	if !strings.HasPrefix(nonce, s.nonce) || len(nonce) == len(s.nonce) {
		return nil, errors.New("the server's nonce does not begin with ours: it answers somebody else")
	}
	withoutProof := "c=biws,r=" + nonce
	said := s.firstBare() + "," + string(serverFirst) + "," + withoutProof
	salted := pbkdf2([]byte(s.password), salt, iterations)
	clientKey := hash(salted, "Client Key")
	storedKey := sha256.Sum256(clientKey)
	proof := make([]byte, len(clientKey))
	subtle.XORBytes(proof, clientKey, hash(storedKey[:], said))
	s.signature = hash(hash(salted, "Server Key"), said)
	return []byte(withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

// verify is an error where the server does not know the password.
func (s *scram) verify(serverFinal []byte) error {
	signature, err := base64.StdEncoding.DecodeString(scramParts(serverFinal)["v"])
	if err != nil || s.signature == nil || !hmac.Equal(signature, s.signature) {
		return errors.New("the server has not proved that it knows the user: it is a false one")
	}
	return nil
}

func scramParts(message []byte) map[string]string {
	parts := map[string]string{}
	for _, part := range bytes.Split(message, []byte(",")) {
		if name, value, ok := bytes.Cut(part, []byte("=")); ok {
			parts[string(name)] = string(value)
		}
	}
	return parts
}

func hash(key []byte, text string) []byte {
	made := hmac.New(sha256.New, key)
	made.Write([]byte(text))
	return made.Sum(nil)
}

// pbkdf2 is that of RFC 8018 with HMAC-SHA-256, for one block; the standard library has it from Go 1.24 on.
func pbkdf2(password, salt []byte, iterations int) []byte {
	keyed := hmac.New(sha256.New, password)
	block := hash(password, string(binary.BigEndian.AppendUint32(bytes.Clone(salt), 1)))
	sum := bytes.Clone(block)
	for range iterations - 1 {
		keyed.Reset()
		keyed.Write(block)
		block = keyed.Sum(block[:0])
		subtle.XORBytes(sum, sum, block)
	}
	return sum
}
