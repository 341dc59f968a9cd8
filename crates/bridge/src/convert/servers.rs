//! MCP servers.

use switchboard_protocol::{AbsolutePath, Text, v1, v2};

use crate::Error;
use crate::loss::At;

/// Servers as version 2 has them.
pub(crate) fn to_v2<'a>(
    servers: Vec<v1::McpServer<'a>>,
    at: &At<'_>,
) -> Result<Vec<v2::McpServer<'a>>, Error> {
    let convert = |(index, server): (usize, v1::McpServer<'a>)| match server {
        v1::McpServer::Stdio(server) => Ok(v2::McpServer::Stdio(v2::McpServerStdio {
            name: server.name,
            command: AbsolutePath::as_sent(server.command),
            args: Some(server.args),
            env: Some(server.env),
            meta: server.meta,
            extra: server.extra,
        })),
        v1::McpServer::Http(server) => Ok(v2::McpServer::Http(v2::McpServerHttp {
            name: server.name,
            url: server.url,
            headers: Some(server.headers),
            meta: server.meta,
            extra: server.extra,
        })),
        v1::McpServer::Sse(_) => {
            Err(Error::unrepresentable(at.item(index), "version 2 has no servers that send events (sse)"))
        }
        v1::McpServer::Unknown(unknown) => {
            let reason = format!("a kind of server that version 1 does not define: \"{}\"", unknown.tag);
            Err(Error::unrepresentable(at.item(index), reason))
        }
    };
    servers.into_iter().enumerate().map(convert).collect()
}

/// Servers as version 1 has them.
pub(crate) fn to_v1<'a>(
    servers: Vec<v2::McpServer<'a>>,
    at: &At<'_>,
) -> Result<Vec<v1::McpServer<'a>>, Error> {
    let convert = |(index, server): (usize, v2::McpServer<'a>)| match server {
        v2::McpServer::Stdio(server) => Ok(v1::McpServer::Stdio(v1::McpServerStdio {
            name: server.name,
            command: Text::Owned(server.command.as_str().to_owned()),
            args: server.args.unwrap_or_default(),
            env: server.env.unwrap_or_default(),
            meta: server.meta,
            extra: server.extra,
        })),
        v2::McpServer::Http(server) => Ok(v1::McpServer::Http(v1::McpServerHttp {
            name: server.name,
            url: server.url,
            headers: server.headers.unwrap_or_default(),
            meta: server.meta,
            extra: server.extra,
        })),
        v2::McpServer::Unknown(unknown) => {
            let reason = format!("version 1 has no servers of type \"{}\"", unknown.tag);
            Err(Error::unrepresentable(at.item(index), reason))
        }
    };
    servers.into_iter().enumerate().map(convert).collect()
}
