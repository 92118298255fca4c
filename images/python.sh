# shellcheck shell=sh
# pip may install for everybody: the sandbox is the environment.
rm -f /usr/lib/python3.*/EXTERNALLY-MANAGED

# The test suites of the libraries, 150 MB. dpkg cannot leave them out: py3compile wants to see them.
find /usr/lib/python3/dist-packages -type d -name tests -prune -exec rm -rf {} +

# Charts go to files, and the first one needs no search for fonts. The folder is named by
# MPLCONFIGDIR, so that it serves every user; matplotlib wants to be able to write there.
sed -i 's/^#* *backend *:.*/backend: Agg/' /etc/matplotlibrc
grep -q '^backend: Agg$' /etc/matplotlibrc
install --directory --mode=1777 /var/cache/matplotlib
# The seed fixes the order of the fonts in the list.
PYTHONHASHSEED=0 MPLCONFIGDIR=/var/cache/matplotlib python3 -c 'import matplotlib.font_manager'
chmod 0666 /var/cache/matplotlib/fontlist-*.json
