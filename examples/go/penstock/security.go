package penstock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"penstock.example/go/penstockpb"
)

// Security says how a cluster's listeners are reached. The zero value is plain text, and nobody.
type Security struct {
	TLS                *tls.Config // nil: plain text
	Username, Password string      // "": no log-in
}

// TrustCA is the TLS of a client that trusts the authorities in a PEM file, such as the cluster's ca.pem.
func TrustCA(path string) (*tls.Config, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: has no certificate", path)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

func (s Security) dialOptions(address string) []grpc.DialOption {
	transport := insecure.NewCredentials()
	if s.TLS != nil {
		transport = credentials.NewTLS(s.TLS)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if s.Username != "" {
		own := &session{security: s, address: address}
		options = append(options, grpc.WithUnaryInterceptor(own.call), grpc.WithStreamInterceptor(own.open))
	}
	return options
}

// session is the log-in of one connection. gRPC may make the connection anew by itself: then the node does not know the
// token, says so before it does anything, and the client logs in again.
type session struct {
	security Security
	address  string

	mu    sync.Mutex
	token string
}

// current is the token; logs in where there is none but the one that was refused.
func (s *session) current(ctx context.Context, connection *grpc.ClientConn, refused string) (context.Context, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == refused {
		s.token = ""
		token, err := s.logIn(ctx, connection)
		if err != nil {
			return nil, "", err
		}
		s.token = token
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.token), s.token, nil
}

func (s *session) logIn(ctx context.Context, connection *grpc.ClientConn) (string, error) {
	broker, dialogue := penstockpb.NewBrokerClient(connection), newScram(s.security.Username, s.security.Password)
	var trailer metadata.MD
	asked := &penstockpb.SaslAuthenticateRequest{Mechanism: scramMechanism, AuthBytes: dialogue.first()}
	answer, err := broker.SaslAuthenticate(ctx, asked, grpc.Trailer(&trailer))
	if err != nil {
		return "", fromStatus(err, trailer, s.address)
	}
	final, err := dialogue.final(answer.AuthBytes)
	if err != nil {
		return "", newError(saslAuthenticationFailed, s.address+": "+err.Error())
	}
	answer, err = broker.SaslAuthenticate(
		ctx, &penstockpb.SaslAuthenticateRequest{AuthBytes: final}, grpc.Trailer(&trailer))
	if err != nil {
		return "", fromStatus(err, trailer, s.address)
	}
	if err := dialogue.verify(answer.AuthBytes); err != nil {
		return "", newError(saslAuthenticationFailed, s.address+": "+err.Error())
	}
	return answer.Token, nil
}

// call is every unary call of the connection.
func (s *session) call(
	ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if method == penstockpb.Broker_SaslAuthenticate_FullMethodName {
		return invoke(ctx, method, request, answer, connection, options...)
	}
	known, token, err := s.current(ctx, connection, "")
	if err != nil {
		return err
	}
	if err = invoke(known, method, request, answer, connection, options...); status.Code(err) != codes.Unauthenticated {
		return err
	}
	if known, _, err = s.current(ctx, connection, token); err != nil {
		return err
	}
	return invoke(known, method, request, answer, connection, options...)
}

// open is every stream of the connection.
func (s *session) open(
	ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	known, token, err := s.current(ctx, connection, "")
	if err != nil {
		return nil, err
	}
	stream, err := open(known, description, connection, method, options...)
	if err != nil {
		return nil, err
	}
	return &sessionStream{stream, s, token}, nil
}

// sessionStream is a stream whose session may end before it does: what was not answered was not done then, and the next
// stream logs in again.
type sessionStream struct {
	grpc.ClientStream
	session *session
	token   string
}

func (s *sessionStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if status.Code(err) != codes.Unauthenticated {
		return err
	}
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.session.token == s.token {
		s.session.token = ""
	}
	return newError(networkException, s.session.address+": the session is over; another one begins")
}
