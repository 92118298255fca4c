"""Makes OCI layouts for the tests of images: oci_images.py FOLDER NAME writes the image NAME.

The layers are written entry by entry, because no tool would make what hostile archives contain.
"""
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile

LAYER = 'application/vnd.oci.image.layer.v1.tar'


class Layout:
    def __init__(self, folder):
        self.folder = folder
        self.layers = []
        self.diffs = []
        os.makedirs(f'{folder}/blobs/sha256', exist_ok=True)

    def blob(self, data):
        digest = hashlib.sha256(data).hexdigest()
        with open(f'{self.folder}/blobs/sha256/{digest}', 'wb') as file:
            file.write(data)
        return {'digest': f'sha256:{digest}', 'size': len(data)}

    def layer(self, data, compression='gzip'):
        self.diffs.append('sha256:' + hashlib.sha256(data).hexdigest())
        if compression == 'gzip':
            data = gzip.compress(data, 1, mtime=0)
        elif compression == 'zstd':
            data = subprocess.run(['zstd', '-c'], input=data, stdout=subprocess.PIPE, check=True).stdout
        suffix = f'+{compression}' if compression else ''
        self.layers.append({'mediaType': LAYER + suffix, **self.blob(data)})

    def manifest(self, config, architecture):
        config = {'architecture': architecture, 'os': 'linux', 'config': config,
                  'rootfs': {'type': 'layers', 'diff_ids': self.diffs}}
        manifest = {'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.manifest.v1+json',
                    'config': {'mediaType': 'application/vnd.oci.image.config.v1+json',
                               **self.blob(json.dumps(config).encode())},
                    'layers': self.layers}
        return {'mediaType': manifest['mediaType'], **self.blob(json.dumps(manifest).encode())}

    def index(self, *manifests):
        with open(f'{self.folder}/oci-layout', 'w', encoding='ascii') as file:
            file.write('{"imageLayoutVersion": "1.0.0"}')
        with open(f'{self.folder}/index.json', 'w', encoding='ascii') as file:
            json.dump({'schemaVersion': 2, 'manifests': manifests}, file)

    def finish(self, config=None, architecture='amd64'):
        self.index({**self.manifest(config or {}, architecture),
                    'annotations': {'org.opencontainers.image.ref.name': 'latest'}})


class Tar:
    """Entries in any order, with any names."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode='w', format=tarfile.PAX_FORMAT)

    def add(self, name, kind=tarfile.REGTYPE, data=b'', mode=0o644, owner=0, link='', **more):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner, owner
        entry.linkname, entry.size, entry.mtime = link, len(data), 1600000000
        for key, value in more.items():
            setattr(entry, key, value)
        self.tar.addfile(entry, io.BytesIO(data))
        return self

    def folder(self, name, **more):
        return self.add(name, tarfile.DIRTYPE, mode=more.pop('mode', 0o755), **more)

    def symlink(self, name, target):
        return self.add(name, tarfile.SYMTYPE, link=target)

    def hardlink(self, name, target):
        return self.add(name, tarfile.LNKTYPE, link=target)

    def busybox(self, *names):
        with open('/bin/busybox', 'rb') as file:
            self.add('bin/busybox', data=file.read(), mode=0o755)
        for name in names:
            self.symlink(f'bin/{name}', 'busybox')
        return self

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


APPLETS = ('sh', 'ls', 'cat', 'id', 'pwd', 'env', 'stat', 'find', 'mkdir', 'echo', 'test', 'readlink', 'true')


def base():
    return Tar().busybox(*APPLETS)


def image_plain(layout):
    layout.layer(base().done())
    layout.finish()


def image_scratch(layout):
    with open('/bin/busybox', 'rb') as file:
        layout.layer(Tar().add('busybox', data=file.read(), mode=0o755).done())
    layout.finish({'Entrypoint': ['/busybox'], 'Cmd': ['echo', 'from', 'scratch']})


def image_configured(layout):
    layout.layer(base().add('etc/passwd', data=b'worker:x:1234:5678::/home/worker:/bin/sh\n').done())
    layout.finish({'Entrypoint': ['/bin/sh', '-c'], 'Cmd': ['echo $GREETING; pwd; id -u; id -g'],
                   'Env': ['PATH=/bin', 'GREETING=good morning', 'nonsense'],
                   'User': 'worker', 'WorkingDir': '/made/for/work'})


def image_layers(layout):
    layout.layer(base().folder('keep').add('keep/a', data=b'a1').folder('opaque')
                 .add('opaque/low', data=b'1').folder('opaque/sub').add('opaque/sub/low', data=b'1')
                 .folder('folder').add('folder/x', data=b'1').add('gone', data=b'1')
                 .add('file', data=b'1').folder('tree').add('tree/deep/er', data=b'1')
                 .symlink('way', 'keep').done(), 'gzip')
    # Whiteouts after, before and between the entries of their own layer.
    layout.layer(Tar().add('opaque/sub/high', data=b'2').add('opaque/high', data=b'2')
                 .add('opaque/.wh..wh..opq').add('.wh.gone').add('.wh.never-there')
                 .add('tree/new', data=b'2').add('.wh.tree').add('.wh..wh.plnk')
                 .add('way/b', data=b'b2').hardlink('keep/c', 'keep/a').done(), 'zstd')
    layout.layer(Tar().add('folder', data=b'a file now').folder('file').add('file/in', data=b'3')
                 .add('keep/a', data=b'a3').done(), None)
    layout.finish()


def image_strange(layout):
    layout.layer(base().symlink('tmp', 'nowhere').symlink('proc', '/etc').add('dev', data=b'a file')
                 .symlink('run', '../../..').symlink('sys', 'sys')
                 .folder('./', mode=0o700, owner=4321).done())
    layout.finish({'User': '1000:1000'})


def image_no_etc(layout):
    layout.layer(base().symlink('etc', '/gone/away').done())
    layout.finish()


def image_owners(layout):
    capability = bytes.fromhex('0100000200200000000000000000000000000000').decode('latin-1')
    layout.layer(base().add('setuid', mode=0o4755, owner=7).add('caps', mode=0o755, pax_headers={
        'SCHILY.xattr.security.capability': capability}).add('owned', owner=65000)
                 .add('sp ace\nand\tmore', data=b'x').add('\u00fcml\u00e4ut', data=b'x').done())
    layout.finish()


def image_hostile(layout):
    """Nothing of this may be seen outside; what can be made is made inside."""
    outside = os.environ['OUTSIDE']
    layout.layer(base().add('/absolute', data=b'x').symlink('out', outside)
                 .add('out/through-link', data=b'x').symlink('up', '../../../../../../../../..' + outside)
                 .add('up/through-dots', data=b'x').symlink('etc/over', '/etc/hostname')
                 .add('etc/over', data=b'replaced').add('disk', tarfile.BLKTYPE, devmajor=8)
                 .add('chars', tarfile.CHRTYPE, devmajor=1, devminor=3).add('pipe', tarfile.FIFOTYPE)
                 .folder('loop').symlink('loop/a', 'b').symlink('loop/b', 'a')
                 .add('x' * 254, data=b'x').done())
    layout.finish()


def image_hides_outside(layout):
    """Whiteouts through a link, and the same name again and again."""
    outside = os.environ['OUTSIDE']
    layout.layer(base().symlink('way', outside).add(outside[1:] + '/victim', data=b'x')
                 .add('again', data=b'1').symlink('again', '/etc/passwd').folder('again').add('again/x', data=b'3')
                 .add('again', data=b'4\n').hardlink('again', 'again').symlink('link', 'again').done())
    layout.layer(Tar().add('way/.wh.victim').add('way/.wh..wh..opq').done())
    layout.finish()


def refuse(entry):
    """An image with an entry that cannot be taken."""
    def make(layout):
        tar = base()
        entry(tar)
        layout.layer(tar.done())
        layout.finish()
    return make


def image_broken(layout):
    layout.layer(b'this is no archive' * 100, None)
    layout.finish()


def image_torn(layout):
    layout.layer(base().add('big', data=os.urandom(100000)).done()[:-60000], None)
    layout.finish()


def image_bomb(layout):
    """64 TB in a few bytes: a sparse file."""
    size = 1 << 46
    tar = base()
    tar.add('bomb', pax_headers={'GNU.sparse.major': '0', 'GNU.sparse.minor': '1', 'GNU.sparse.name': 'bomb',
                                 'GNU.sparse.size': str(size), 'GNU.sparse.numblocks': '1',
                                 'GNU.sparse.map': f'{size},0'})
    layout.layer(tar.done())
    layout.finish()


def image_large(layout):
    layout.layer(base().done())
    layout.layer(Tar().add('large', data=os.urandom(24 << 20)).done())
    layout.finish()


def image_foreign(layout):
    layout.layer(base().done())
    layout.finish(architecture='riscv64')


def image_many(layout):
    """A list; the entry for this architecture is not the first."""
    layout.layer(base().done())
    entries = [{**layout.manifest({'Cmd': ['/bin/echo', name]}, name),
                'platform': {'os': 'linux', 'architecture': name}} for name in ('arm64', 'amd64', 's390x')]
    nested = {'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.index.v1+json', 'manifests': entries}
    layout.index({'mediaType': nested['mediaType'], **layout.blob(json.dumps(nested).encode()),
                  'annotations': {'org.opencontainers.image.ref.name': 'latest'}})


def image_many_others(layout):
    layout.layer(base().done())
    entries = [{**layout.manifest({}, name), 'platform': {'os': 'linux', 'architecture': name}}
               for name in ('arm64', 's390x')]
    nested = {'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.index.v1+json', 'manifests': entries}
    layout.index({'mediaType': nested['mediaType'], **layout.blob(json.dumps(nested).encode()),
                  'annotations': {'org.opencontainers.image.ref.name': 'latest'}})


def write_dynamic(layout, compiler, libraries):
    """A program with the loader and the library of C that it needs; the loader is the first."""
    program = f'{layout.folder}/program'
    source = '#include <stdio.h>\nint main(void) { return printf("loaded by %s\\n", LOADER) < 0; }\n'
    subprocess.run([compiler, '-x', 'c', '-', '-o', program, f'-DLOADER="{os.path.basename(libraries[0])}"'],
                   input=source.encode(), check=True)
    tar = Tar()
    for path in (*libraries, program):
        with open(path, 'rb') as file:
            tar.add('program' if path == program else path, data=file.read(), mode=0o755)
    os.unlink(program)
    layout.layer(tar.done())
    layout.finish({'Cmd': ['/program']})


def image_glibc(layout):
    write_dynamic(layout, 'gcc', ['/lib64/ld-linux-x86-64.so.2', '/lib/x86_64-linux-gnu/libc.so.6'])


def image_musl(layout):
    write_dynamic(layout, 'musl-gcc', ['/lib/ld-musl-x86_64.so.1'])


def with_user(user):
    def make(layout):
        layout.layer(base().add('etc/passwd', data=b'worker:x:77:88::/:/bin/sh\n')
                     .add('etc/group', data=b'staff:x:99:\n').done())
        layout.finish({'User': user, 'Env': ['PATH=/bin']})
    return make


def image_talkative(layout):
    """Has something that is called python3 but is none."""
    layout.layer(base().add('usr/bin/python3', data=b'#!/bin/sh\nexit 3\n', mode=0o755).done())
    layout.finish({'Env': ['PATH=/usr/bin:/bin']})


IMAGES = {name[6:].replace('_', '-'): value for name, value in globals().items() if name.startswith('image_')}
IMAGES['dots'] = refuse(lambda tar: tar.add('a/../../dots', data=b'x'))
IMAGES['hard-link-out'] = refuse(lambda tar: tar.hardlink('passwd', '../../../../etc/passwd'))
IMAGES['hard-link-by-link'] = refuse(lambda tar: tar.symlink('e', '/etc').hardlink('passwd', 'e/passwd'))
IMAGES['hard-link-to-folder'] = refuse(lambda tar: tar.folder('f').hardlink('g', 'f'))
IMAGES['no-name'] = refuse(lambda tar: tar.add('.wh.'))
IMAGES['hides-parent'] = refuse(lambda tar: tar.add('x/.wh...'))
IMAGES['long-name'] = refuse(lambda tar: tar.add('x' * 255))
IMAGES['owner'] = refuse(lambda tar: tar.add('x', owner=1 << 40))
IMAGES['deep'] = refuse(lambda tar: tar.add('d/' * 1900 + 'x'))
IMAGES['pax-out'] = refuse(lambda tar: tar.add('x', pax_headers={'path': 'a/../../../out'}))
IMAGES['pax-huge'] = refuse(lambda tar: tar.add('x', pax_headers={'comment': 'x' * (3 << 20)}))
IMAGES['pax-size'] = refuse(lambda tar: tar.add('x', pax_headers={'size': str(1 << 40)}))
IMAGES['user-number'] = with_user('4711')
IMAGES['user-numbers'] = with_user('4711:4712')
IMAGES['user-names'] = with_user('worker:staff')
IMAGES['user-missing'] = with_user('stranger')
IMAGES['root-file'] = refuse(lambda tar: tar.add('.', data=b''))


if __name__ == '__main__':
    IMAGES[sys.argv[2]](Layout(sys.argv[1]))
